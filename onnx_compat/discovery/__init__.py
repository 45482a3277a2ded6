"""Discovery of shims: selection, probes, diagnosis of failures, and installable extras."""

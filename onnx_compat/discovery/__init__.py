"""Which shim works here: selection, probes, diagnosis, and what an installation would bring."""

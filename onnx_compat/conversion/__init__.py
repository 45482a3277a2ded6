"""Models to files: convert, join, bundles, and where a file may be written."""

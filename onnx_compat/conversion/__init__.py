"""Conversion of models to files: convert, join, bundles, and the rules for paths that are written."""

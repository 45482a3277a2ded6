"""Prepared models: feeds, plans, partitions, the fallback, and the prediction of support."""

"""Execution of models: prepared models, feeds, plans, partitions, the fallback, and the prediction of support."""

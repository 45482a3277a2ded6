"""Trained networks that packages ship, listed in `[real]` of matrix.toml: fetched, converted, verified and measured.

`nox -s real` does all of it. `nox -s real -- --record` stores the results in measured.json, from which docs/real.md is rendered.
"""

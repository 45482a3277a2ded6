"""Trained networks from the files of published packages, listed in `[real]` of matrix.toml.

`nox -s real` fetches, converts, verifies and measures them. `nox -s real -- --record` stores the results in
measured.json, from which docs/real.md is rendered.
"""

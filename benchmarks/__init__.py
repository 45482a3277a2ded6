"""Benchmarks: speed and size of this project beside other projects, as ratios measured in one run.

`python -m benchmarks --python ID=INTERPRETER ...` (called by `nox -s bench`). The environments and their pins are those of
matrix.toml. `benchmarks/child` runs in them and talks to this side in lines of JSON.
"""

"""Benchmarks: speed and size of this project compared with other projects, as ratios measured in one run.

`python -m benchmarks --python ID=INTERPRETER ...` (called by `nox -s bench`). matrix.toml lists the environments and
their pins. `benchmarks/child` runs as a child process in each environment, and exchanges lines of JSON with this
process.
"""

"""How fast, how large: ours beside other projects, every number a ratio that was measured in one run.

`python -m benchmarks --python ID=INTERPRETER ...` (what `nox -s bench` calls). The environments and their pins are those
of matrix.toml; what they do runs in them as `benchmarks/child`, which talks to this side in lines of JSON.
"""

"""Networks that ship trained inside packages, as `[real]` of matrix.toml lists them: fetched, converted, verified and measured.

`nox -s real` does it all; `nox -s real -- --record` stores what it found (measured.json), which docs/real.md is rendered from.
"""

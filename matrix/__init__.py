"""The test matrix: matrix.toml lists every framework, Python and opset; these modules render, resolve and run it."""

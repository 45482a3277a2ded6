"""The test matrix: matrix.toml lists every framework, Python and opset.

These modules render, resolve and run the matrix.
"""

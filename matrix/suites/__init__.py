"""The recorded test cases of every onnx release, fetched once and written as plain files that any cell reads.

`cache` is all that a cell imports: Python 3.7, numpy and any onnx suffice for it. The other modules fetch and generate, under
a modern Python: `nox -s suites`, or `python -m matrix.suites fetch light simple --onnx 1.23.2=28`.
"""

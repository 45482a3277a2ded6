"""The recorded test cases of every onnx release, fetched once and written as plain files that any cell reads.

`cache` is all that a cell imports: Python 3.7, numpy and onnx suffice for it. The other modules fetch and generate, under
a modern Python: `python -m matrix.suites fetch light simple`.
"""

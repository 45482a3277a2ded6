"""The recorded test cases of every onnx release, fetched once and written as plain files that any cell can read.

A cell imports only `cache`, which needs Python 3.7, numpy and any onnx. The other modules fetch and generate cases, on
a recent Python: `nox -s suites`, or `python -m matrix.suites fetch light simple --onnx 1.23.2=28`.
"""

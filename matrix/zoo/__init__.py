"""Zoo: PyTorch networks, exported to ONNX in several ways by exporters that are independent of this project.

Each is written into the cache (suite `zoo`; large networks `zoo-full`) with several data sets, and with outputs on which
onnxruntime and PyTorch agree: `python -m matrix.zoo generate`.
"""

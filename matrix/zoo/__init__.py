"""Models from an exporter that knows nothing of this project: PyTorch networks, exported in several ways.

Each is written into the cache (suite `zoo`; the large ones `zoo-full`) with several data sets and with outputs on which
onnxruntime and PyTorch agree: `python -m matrix.zoo generate`.
"""

"""Zoo: PyTorch networks, exported to ONNX in several ways by exporters that are independent of this project.

`python -m matrix.zoo generate` writes each export into the cache (suite `zoo`; large networks `zoo-full`), with several
data sets. Their outputs are those of onnxruntime, with which PyTorch agrees.
"""

"""ONNX as a target: programs written as ONNX graphs of any opset, and the shim that runs them in onnxruntime."""

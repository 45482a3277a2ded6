"""Recording: traced values, pending layouts, the interpreter of ONNX graphs, weight folding."""

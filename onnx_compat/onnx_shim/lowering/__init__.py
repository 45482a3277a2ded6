"""The primitives as ONNX operators: a class for each family, for every operator set at once."""

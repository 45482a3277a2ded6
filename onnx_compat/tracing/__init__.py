"""Tracing: record an ONNX graph as a program. Has traced values, pending layouts and the interpreter of ONNX graphs."""

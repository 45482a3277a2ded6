"""Tracing: record an ONNX graph as a program. Traced values, pending layouts, and the interpreter of ONNX graphs."""

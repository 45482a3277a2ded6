"""Meanings of operators: short functions over primitives, by family."""

from onnx_compat.ops.registry import OPERATORS, Operator, has_meaning, lookup, op, registered

__all__ = ["OPERATORS", "Operator", "has_meaning", "lookup", "op", "registered"]

"""Meanings of operators: short functions over primitives, by family."""

from onnx_compat.ops.registry import OPERATORS, Operator, all_meanings, has_meaning, lookup, op

__all__ = ["OPERATORS", "Operator", "all_meanings", "has_meaning", "lookup", "op"]

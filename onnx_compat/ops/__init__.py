"""Meanings of ONNX operators: each is a short function over primitives, in a module for its family."""

from onnx_compat.ops.registry import OPERATORS, Operator, all_meanings, has_meaning, lookup, op

__all__ = ["OPERATORS", "Operator", "all_meanings", "has_meaning", "lookup", "op"]

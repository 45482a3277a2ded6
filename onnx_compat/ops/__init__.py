"""What each operator means: short functions over primitives, by family."""

from onnx_compat.ops.registry import OPERATORS, Operator, lookup, op, registered

__all__ = ["OPERATORS", "Operator", "lookup", "op", "registered"]

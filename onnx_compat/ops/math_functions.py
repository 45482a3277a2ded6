"""Elementwise functions of one operand."""

from typing import Callable, Sequence

from onnx_compat import primitives as p
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


def _register_unary(name: str, function: Callable[[Tensor], Tensor], since: Sequence[int]) -> None:
    """Register `function` as the meaning of the elementwise operator `name`, for each version in `since`."""

    def meaning(X: Tensor) -> Tensor:
        return function(X)

    op(name, since=since)(meaning)


_register_unary("Abs", p.abs, [1, 6, 13])
_register_unary("Neg", p.neg, [1, 6, 13])
_register_unary("Sign", p.sign, [9, 13])
_register_unary("Exp", p.exp, [1, 6, 13])
_register_unary("Log", p.log, [1, 6, 13])
_register_unary("Sqrt", p.sqrt, [1, 6, 13])
_register_unary("Reciprocal", lambda x: p.div(lift(1, x.dtype), x), [1, 6, 13])
_register_unary("Floor", p.floor, [1, 6, 13])
_register_unary("Ceil", p.ceil, [1, 6, 13])
_register_unary("Round", p.round, [11, 22])
_register_unary("Erf", p.erf, [9, 13])
_register_unary("Sin", p.sin, [7, 22])
_register_unary("Cos", p.cos, [7, 22])
_register_unary("Tan", p.tan, [7, 22])
_register_unary("Asin", p.asin, [7, 22])
_register_unary("Acos", p.acos, [7, 22])
_register_unary("Atan", p.atan, [7, 22])
_register_unary("Sinh", p.sinh, [9, 22])
_register_unary("Cosh", p.cosh, [9, 22])
_register_unary("Asinh", p.asinh, [9, 22])
_register_unary("Acosh", p.acosh, [9, 22])
_register_unary("Atanh", p.atanh, [9, 22])
_register_unary("Tanh", p.tanh, [1, 6, 13])
_register_unary("Sigmoid", p.sigmoid, [1, 6, 13])
_register_unary("Relu", p.relu, [1, 6, 13, 14])

"""Functions of one number."""

from typing import Callable, Sequence

from onnx_compat import primitives as p
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


def _unary(name: str, function: Callable[[Tensor], Tensor], since: Sequence[int]) -> None:
    def meaning(X: Tensor) -> Tensor:
        return function(X)

    op(name, since=since)(meaning)


_unary("Abs", p.abs, [1, 6, 13])
_unary("Neg", p.neg, [1, 6, 13])
_unary("Sign", p.sign, [9, 13])
_unary("Exp", p.exp, [1, 6, 13])
_unary("Log", p.log, [1, 6, 13])
_unary("Sqrt", p.sqrt, [1, 6, 13])
_unary("Reciprocal", lambda x: p.div(lift(1, x.dtype), x), [1, 6, 13])
_unary("Floor", p.floor, [1, 6, 13])
_unary("Ceil", p.ceil, [1, 6, 13])
_unary("Round", p.round, [11, 22])
_unary("Erf", p.erf, [9, 13])
_unary("Sin", p.sin, [7, 22])
_unary("Cos", p.cos, [7, 22])
_unary("Tan", p.tan, [7, 22])
_unary("Asin", p.asin, [7, 22])
_unary("Acos", p.acos, [7, 22])
_unary("Atan", p.atan, [7, 22])
_unary("Sinh", p.sinh, [9, 22])
_unary("Cosh", p.cosh, [9, 22])
_unary("Asinh", p.asinh, [9, 22])
_unary("Acosh", p.acosh, [9, 22])
_unary("Atanh", p.atanh, [9, 22])
_unary("Tanh", p.tanh, [1, 6, 13])
_unary("Sigmoid", p.sigmoid, [1, 6, 13])
_unary("Relu", p.relu, [1, 6, 13, 14])

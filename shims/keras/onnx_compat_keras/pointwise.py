"""Element-wise primitives that a function of a namespace computes: of jax.numpy, torch or keras.ops."""

from typing import Any

from onnx_compat_keras.framework_types import Handle

__all__ = ["Pointwise", "namespace_function"]


def namespace_function(name: str) -> Any:
    """Return an emitter method that returns `self.call_namespace(name, *operands)` for its operands."""

    def call_function(self: "Pointwise", *operands: Handle) -> Handle:
        return self.call_namespace(name, *operands)

    call_function.__name__ = name
    return call_function


class Pointwise:
    """Emitter methods for the elementwise primitives that every namespace computes by a function with numpy's name."""

    def call_namespace(self, name: str, *operands: Handle) -> Handle:
        """Return the result of the function `name` of the namespace for these operands. Each subclass defines it."""
        raise NotImplementedError

    exp = namespace_function("exp")
    log = namespace_function("log")
    sqrt = namespace_function("sqrt")
    sin = namespace_function("sin")
    cos = namespace_function("cos")
    tan = namespace_function("tan")
    asin = namespace_function("arcsin")
    acos = namespace_function("arccos")
    atan = namespace_function("arctan")
    sinh = namespace_function("sinh")
    cosh = namespace_function("cosh")
    asinh = namespace_function("arcsinh")
    acosh = namespace_function("arccosh")
    atanh = namespace_function("arctanh")
    floor = namespace_function("floor")
    ceil = namespace_function("ceil")
    round = namespace_function("round")
    is_nan = namespace_function("isnan")
    is_inf = namespace_function("isinf")
    logical_not = namespace_function("logical_not")
    bitwise_not = namespace_function("bitwise_not")
    atan2 = namespace_function("arctan2")
    equal = namespace_function("equal")
    less = namespace_function("less")
    less_equal = namespace_function("less_equal")
    logical_and = namespace_function("logical_and")
    logical_or = namespace_function("logical_or")
    logical_xor = namespace_function("logical_xor")
    bitwise_and = namespace_function("bitwise_and")
    bitwise_or = namespace_function("bitwise_or")
    bitwise_xor = namespace_function("bitwise_xor")

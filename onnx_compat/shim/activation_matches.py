"""Find activations that exporters and meanings compose of simpler primitives, in recorded programs.

A `match_` function takes the last node of such a composition. The factors and addends may be in any order.
"""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat.ir import Const, Node, Ref

__all__ = [
    "Arg",
    "Match",
    "Product",
    "addend_of",
    "bounds_of",
    "is_power",
    "match_elu",
    "match_gelu",
    "match_hard_sigmoid",
    "match_hard_swish",
    "match_mish",
    "match_softplus",
    "match_softsign",
    "match_swish",
    "number_of",
    "producer_of",
    "product_of",
]

#: (primitive of the activation, its arguments, its parameters); None if the node does not compute the activation.
Match = Optional[Tuple[str, List[Any], Dict[str, Any]]]

Arg = Any  # An argument of a node: a Ref, a Const, or None for an omitted argument.


class Product(NamedTuple):
    """A product number * values[0] * values[1] * ...; the values are refs or constants, and may repeat."""

    number: float
    values: List[Any]


def producer_of(arg: Arg, *primitives: str) -> Optional[Node]:
    """Return the node that computes `arg`, if it applies one of these primitives.

    Returns None for another node, and for an argument that no node computes.
    """
    node = arg.node if isinstance(arg, Ref) else None
    return node if node is not None and node.primitive in primitives else None


def number_of(arg: Arg) -> Optional[float]:
    """Return the value of a floating-point constant with a single element.

    Returns None for any other argument, also for an integer constant.
    """
    if isinstance(arg, Const) and arg.array.size == 1 and arg.array.dtype.kind == "f":
        return float(arg.array.reshape(()))
    return None


def addend_of(node: Optional[Node], number: float) -> Any:
    """Return x if the node computes x + number, number + x, or x - (-number).

    Returns None for any other node, and if `node` is None.
    """
    if node is None or node.primitive not in ("add", "sub"):
        return None
    x, y = node.args
    if node.primitive == "add" and number_of(x) is not None:
        x, y = y, x
    value = number_of(y)
    return x if value is not None and (value if node.primitive == "add" else -value) == number else None


def product_of(arg: Arg) -> Product:
    """Return `arg` as a product of a number and values, expanded recursively: x * (y / 2) => 0.5, [x, y].

    Expanded are `mul`, `div` by a constant other than 0, and `pow` of 2 or 3. A floating-point constant with a single
    element is a number without values. Any other `arg` is a single value, with the number 1.
    """
    node = producer_of(arg, "mul", "div", "pow")
    if node is None:
        value = number_of(arg)
        return Product(1.0, [arg]) if value is None else Product(value, [])
    x, y = node.args
    left, right = product_of(x), number_of(y)
    if node.primitive == "mul":
        factor = product_of(y)
        return Product(left.number * factor.number, left.values + factor.values)
    if node.primitive == "div" and right:
        return Product(left.number / right, left.values)
    if node.primitive == "pow" and right in (2, 3):
        return Product(left.number ** int(right), left.values * int(right))
    return Product(1.0, [arg])


def _is_close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-5, atol=0))


def is_power(product: Product, number: float, x: Arg, exponent: int) -> bool:
    """Whether a product is number * x^exponent: its number within a relative 1e-5, its values all x itself."""
    return (
        _is_close(product.number, number)
        and len(product.values) == exponent
        and all(value is x for value in product.values)
    )


def match_gelu(node: Node) -> Match:
    """Return gelu as a `Match` if the node, a mul or div, computes one of these forms. Returns None for any other node.

    - x / 2 * (1 + erf(x / sqrt 2)): the parameter `approximate` is False.
    - x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))): `approximate` is True.

    The factors may be in any order that `product_of` expands.
    """
    if node.primitive not in ("mul", "div"):
        return None
    whole = product_of(node.outputs[0])
    if len(whole.values) != 2 or not _is_close(whole.number, 0.5):
        return None
    for x, factor in (whole.values, whole.values[::-1]):
        inner = addend_of(producer_of(factor, "add"), 1)
        curve = producer_of(inner, "erf", "tanh")
        if curve is None or not isinstance(x, Ref):
            continue
        within = product_of(curve.args[0])
        if curve.primitive == "erf" and is_power(within, math.sqrt(0.5), x, 1):
            return "gelu", [x], {"approximate": False}
        if curve.primitive == "tanh" and _is_close(within.number, math.sqrt(2 / math.pi)) and _is_gelu_cubic(within, x):
            return "gelu", [x], {"approximate": True}
    return None


def _is_gelu_cubic(product: Product, x: Ref) -> bool:
    """Whether the product has a single value, which is x + 0.044715 x^3. The number of the product is not checked."""
    node = producer_of(product.values[0], "add") if len(product.values) == 1 else None
    if node is None:
        return False
    return any(a is x and is_power(product_of(b), 0.044715, x, 3) for a, b in (node.args, node.args[::-1]))


def match_elu(node: Node) -> Match:
    """Return elu as a `Match` if the node computes max(x, 0) + (exp(min(x, 0)) - 1).

    Returns None for any other node.
    """
    for left, right in (node.args, node.args[::-1]) if node.primitive == "add" else ():
        above, below = producer_of(left, "clip"), producer_of(addend_of(producer_of(right, "add", "sub"), -1), "exp")
        clipped = producer_of(below.args[0], "clip") if below is not None else None
        if above is None or clipped is None or above.args[0] is not clipped.args[0]:
            continue
        if bounds_of(above) == (0, None) and bounds_of(clipped) == (None, 0):
            return "elu", [above.args[0]], {}
    return None


def bounds_of(clip: Node) -> Tuple[Any, Any]:
    """Return (lower bound, upper bound) of a clip node. A missing bound is None."""
    return clip.params.get("low"), clip.params.get("high")


def match_softplus(node: Node) -> Match:
    """Return softplus as a `Match` if the node computes it as onnx-compat composes it.

    The node adds max(x, 0) and 2 * atanh(e / (e + 2)), in any order. e is exp(min(x, -x)). Returns None for any other
    node.
    """
    for left, right in (node.args, node.args[::-1]) if node.primitive == "add" else ():
        above, rest = producer_of(left, "clip"), product_of(right)
        atanh = producer_of(rest.values[0], "atanh") if len(rest.values) == 1 and rest.number == 2 else None
        quotient = producer_of(atanh.args[0], "div") if atanh is not None else None
        small = producer_of(quotient.args[0], "exp") if quotient is not None else None
        if above is None or quotient is None or small is None or bounds_of(above) != (0, None):
            continue
        lesser, x = producer_of(small.args[0], "minimum"), above.args[0]
        negative = producer_of(lesser.args[1], "neg") if lesser is not None and lesser.args[0] is x else None
        if negative is None or negative.args[0] is not x:
            continue
        if addend_of(producer_of(quotient.args[1], "add"), 2) is small.outputs[0]:
            return "softplus", [above.args[0]], {}
    return None


def match_mish(node: Node) -> Match:
    """Return mish as a `Match` if the node computes x * tanh(softplus(x)). Returns None for any other node.

    The softplus has the form of `match_softplus`.
    """
    for x, factor in (node.args, node.args[::-1]) if node.primitive == "mul" else ():
        curve = producer_of(factor, "tanh")
        softplus = producer_of(curve.args[0], "add") if curve is not None else None
        match = match_softplus(softplus) if softplus is not None else None
        if match is not None and match[1][0] is x:
            return "mish", [x], {}
    return None


def match_swish(node: Node) -> Match:
    """Return swish as a `Match` if the node computes x * sigmoid(x). Returns None for any other node."""
    for x, factor in (node.args, node.args[::-1]) if node.primitive == "mul" else ():
        curve = producer_of(factor, "sigmoid")
        if curve is not None and curve.args[0] is x:
            return "swish", [x], {}
    return None


def match_softsign(node: Node) -> Match:
    """Return softsign as a `Match` if the node computes x / (1 + |x|). Returns None for any other node."""
    if node.primitive != "div":
        return None
    x, divisor = node.args
    size = producer_of(addend_of(producer_of(divisor, "add"), 1), "abs")
    return ("softsign", [x], {}) if size is not None and size.args[0] is x else None


def match_hard_sigmoid(node: Node) -> Match:
    """Return hard_sigmoid as a `Match` if the node computes min(max(x / 6 + 1/2, 0), 1).

    The form min(max(x + 3, 0), 6) / 6 matches too. Returns None for any other node.
    """
    if node.primitive == "clip" and bounds_of(node) == (0, 1):
        x = _is_ramp(node.args[0], 1 / 6, 0.5)
    else:
        product = product_of(node.outputs[0]) if node.primitive in ("mul", "div") else Product(1.0, [])
        clip = producer_of(product.values[0], "clip") if len(product.values) == 1 else None
        scaled = clip is not None and _is_close(product.number, 1 / 6) and bounds_of(clip) == (0, 6)
        x = _is_ramp(clip.args[0], 1.0, 3) if clip is not None and scaled else None
    return None if x is None else ("hard_sigmoid", [x], {})


def _is_ramp(arg: Arg, slope: float, offset: float) -> Optional[Ref]:
    """Return x if `arg` is computed as slope * x + offset. Returns None for any other argument."""
    inner = addend_of(producer_of(arg, "add"), offset)
    product = product_of(inner) if inner is not None else Product(1.0, [])
    is_product = len(product.values) == 1 and _is_close(product.number, slope)
    return product.values[0] if is_product and isinstance(product.values[0], Ref) else None


def match_hard_swish(node: Node) -> Match:
    """Return hard_swish as a `Match` if the node computes x * hard_sigmoid(x) (see `match_hard_sigmoid`).

    The form x * min(max(x + 3, 0), 6) / 6 matches too. Returns None for any other node.
    """
    if node.primitive not in ("mul", "div"):
        return None
    product = product_of(node.outputs[0])
    for x, factor in (product.values, product.values[::-1]) if len(product.values) == 2 else ():
        clip = producer_of(factor, "clip")
        if clip is None or not isinstance(x, Ref):
            continue
        wide = _is_close(product.number, 1 / 6) and bounds_of(clip) == (0, 6) and _is_ramp(clip.args[0], 1.0, 3) is x
        unit = _is_close(product.number, 1) and bounds_of(clip) == (0, 1) and _is_ramp(clip.args[0], 1 / 6, 0.5) is x
        if wide or unit:
            return "hard_swish", [x], {}
    return None

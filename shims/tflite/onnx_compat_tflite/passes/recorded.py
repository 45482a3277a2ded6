"""Activations that a program spells out, as the primitives of the emitter that have a kernel for each.

They are found before anything is emitted, since what they are made of is emitted in many ways. The program stays as it
is: others may emit it too.
"""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.dims import same
from onnx_compat.ir import Const, Node, Ref, Region
from onnx_compat_tflite.kernels import Kernels

__all__ = ["named", "rewritten"]


class _Product(NamedTuple):
    """A number times values."""

    number: float
    values: List[Ref]


_Found = Optional[Tuple[str, List[Any], Dict[str, Any]]]


def named(region: Region, kernels: Kernels) -> Region:
    """The region with these activations by name. (Loops and branches are left alone.)"""
    finders = [find for builtin, find in _FINDERS if kernels.accepts(builtin, "float32")]
    return rewritten(region, lambda node: _renamed(node, finders))


def rewritten(region: Region, rewrite: Callable[[Node], Node]) -> Region:
    """Another region of these nodes, or of others that give their results. (The results still tell of the first.)"""
    result = Region(region.inputs)
    result.outputs = region.outputs
    result.replace([rewrite(node) for node in region.live()])
    return result


def _renamed(node: Node, finders: Sequence[Callable[[Node], _Found]]) -> Node:
    if len(node.outputs) != 1 or node.outputs[0].spec.dtype.name != "float32":
        return node
    for find in finders:
        found = find(node)
        if found is not None and found[1][0].spec == node.outputs[0].spec:
            primitive, args, params = found
            other = Node(primitive, args, params, [], node.origin)
            other.outputs = node.outputs
            return other
    return node


# -- looking at values -----------------------------------------------------------------------------------------------------
def _made(arg: Any, *primitives: str) -> Optional[Node]:
    """The node that a value comes from, if it is one of these."""
    node = arg.node if isinstance(arg, Ref) else None
    return node if node is not None and node.primitive in primitives else None


def _number(arg: Any) -> Optional[float]:
    if isinstance(arg, Const) and arg.array.size == 1 and arg.array.dtype.kind == "f":
        return float(arg.array.reshape(()))
    return None


def _plus(node: Optional[Node], number: float) -> Any:
    """x, where the node is x + number."""
    if node is None or node.primitive not in ("add", "sub"):
        return None
    x, y = node.args
    if node.primitive == "add" and _number(x) is not None:
        x, y = y, x
    value = _number(y)
    return x if value is not None and (value if node.primitive == "add" else -value) == number else None


def _product(arg: Any) -> _Product:
    """A value as a product, products in it taken apart."""
    node = _made(arg, "mul", "div", "pow")
    if node is None:
        value = _number(arg)
        return _Product(1.0, [arg]) if value is None else _Product(value, [])
    x, y = node.args
    left, right = _product(x), _number(y)
    if node.primitive == "mul":
        other = _product(y)
        return _Product(left.number * other.number, left.values + other.values)
    if node.primitive == "div" and right:
        return _Product(left.number / right, left.values)
    if node.primitive == "pow" and right in (2, 3):
        return _Product(left.number ** int(right), left.values * int(right))
    return _Product(1.0, [arg])


def _near(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-5, atol=0))


def _is(product: _Product, number: float, *values: Any) -> bool:
    return (
        _near(product.number, number)
        and len(product.values) == len(values)
        and all(any(one is other for other in product.values) for one in values)
    )


# -- the activations -------------------------------------------------------------------------------------------------------
def _gelu(node: Node) -> _Found:
    """x / 2 times 1 + erf(x / sqrt 2), or the tanh that stands for it."""
    if node.primitive not in ("mul", "div"):
        return None
    whole = _product(node.outputs[0])
    if len(whole.values) != 2 or not _near(whole.number, 0.5):
        return None
    for x, other in (whole.values, whole.values[::-1]):
        inner = _plus(_made(other, "add"), 1)
        curve = _made(inner, "erf", "tanh")
        if curve is None or not isinstance(x, Ref):
            continue
        within = _product(curve.args[0])
        if curve.primitive == "erf" and _is(within, math.sqrt(0.5), x):
            return "gelu", [x], {"approximate": False}
        if curve.primitive == "tanh" and _near(within.number, math.sqrt(2 / math.pi)) and _bent(within, x):
            return "gelu", [x], {"approximate": True}
    return None


def _bent(product: _Product, x: Ref) -> bool:
    """Whether the values of a product are x + 0.044715 x^3."""
    node = _made(product.values[0], "add") if len(product.values) == 1 else None
    if node is None:
        return False
    return any(a is x and _is(_product(b), 0.044715, x, x, x) for a, b in (node.args, node.args[::-1]))


def _elu(node: Node) -> _Found:
    """The positive part, and e^x - 1 of the negative one."""
    for one, other in (node.args, node.args[::-1]) if node.primitive == "add" else ():
        above, below = _made(one, "clip"), _made(_plus(_made(other, "add", "sub"), -1), "exp")
        held = _made(below.args[0], "clip") if below is not None else None
        if above is None or held is None or above.args[0] is not held.args[0]:
            continue
        if _bounds(above) == (0, None) and _bounds(held) == (None, 0):
            return "elu", [above.args[0]], {}
    return None


def _bounds(clip: Node) -> Tuple[Any, Any]:
    return clip.params.get("low"), clip.params.get("high")


def _leaky_relu(node: Node) -> _Found:
    """The larger one of x and a smaller share of it; or that share where x is negative."""
    for x, share in (node.args, node.args[::-1]) if node.primitive == "maximum" else ():
        product = _product(share)
        if isinstance(x, Ref) and _is(product, product.number, x) and 0 < product.number <= 1:
            return "leaky_relu", [x], {"alpha": product.number}
    branch = _sloped(node)
    slope = _number(branch[1]) if branch is not None else None
    return ("leaky_relu", [branch[0]], {"alpha": slope}) if branch is not None and slope is not None else None


def _sloped(node: Node) -> Optional[Tuple[Ref, Const]]:
    """x and what it is multiplied by where it is negative."""
    return _negative_share(node) or _mirrored_share(node)


def _negative_share(node: Node) -> Optional[Tuple[Ref, Const]]:
    """Of a choice between x and its share."""
    if node.primitive != "where":
        return None
    condition, share, x = node.args
    less, product = _made(condition, "less"), _made(share, "mul")
    if less is None or product is None or less.args[0] is not x or _number(less.args[1]) != 0:
        return None
    slope = next((b for a, b in (product.args, product.args[::-1]) if a is x and isinstance(b, Const)), None)
    return (x, slope) if isinstance(x, Ref) and slope is not None else None


def _mirrored_share(node: Node) -> Optional[Tuple[Ref, Const]]:
    """Of the positive part and a share of that of -x, as Keras has it."""
    if node.primitive not in ("add", "sub"):
        return None
    for positive, share in (node.args, node.args[::-1]) if node.primitive == "add" else (node.args,):
        x, product = _positive_part(positive), _made(share, "mul")
        for part, slope in (product.args, product.args[::-1]) if product is not None else ():
            mirrored = _made(_positive_part(part), "neg")
            if isinstance(slope, Const) and isinstance(x, Ref) and mirrored is not None and mirrored.args[0] is x:
                return x, Const(slope.array if node.primitive == "sub" else -slope.array, slope.spec.dtype)
    return None


def _positive_part(arg: Any) -> Any:
    """x, where a value is what is positive of x and else zero."""
    node = _made(arg, "clip")
    return node.args[0] if node is not None and _bounds(node) == (0, None) else None


def _prelu(node: Node) -> _Found:
    """With a share for each place of the last axis."""
    branch = _sloped(node)
    if branch is None:
        return None
    x, slope = branch
    shape = slope.spec.shape
    if x.spec.rank < 2 or not shape or not same(shape[-1], x.spec.shape[-1]) or any(size != 1 for size in shape[:-1]):
        return None
    return "prelu", [x, slope], {}


def _softplus(node: Node) -> _Found:
    """The positive part of x, and 2 atanh(e / (e + 2)) of e^-|x|."""
    for one, other in (node.args, node.args[::-1]) if node.primitive == "add" else ():
        above, rest = _made(one, "clip"), _product(other)
        atanh = _made(rest.values[0], "atanh") if len(rest.values) == 1 and rest.number == 2 else None
        quotient = _made(atanh.args[0], "div") if atanh is not None else None
        small = _made(quotient.args[0], "exp") if quotient is not None else None
        if above is None or quotient is None or small is None or _bounds(above) != (0, None):
            continue
        negative = _made(small.args[0], "neg")
        size = _made(negative.args[0], "abs") if negative is not None else None
        if size is None or size.args[0] is not above.args[0]:
            continue
        if _plus(_made(quotient.args[1], "add"), 2) is small.outputs[0]:
            return "softplus", [above.args[0]], {}
    return None


def _mish(node: Node) -> _Found:
    """x times the tanh of its softplus."""
    for x, other in (node.args, node.args[::-1]) if node.primitive == "mul" else ():
        curve = _made(other, "tanh")
        softplus = _made(curve.args[0], "add") if curve is not None else None
        found = _softplus(softplus) if softplus is not None else None
        if found is not None and found[1][0] is x:
            return "mish", [x], {}
    return None


_FINDERS: List[Tuple[str, Callable[[Node], _Found]]] = [
    ("GELU", _gelu),
    ("ELU", _elu),
    ("LEAKY_RELU", _leaky_relu),
    ("PRELU", _prelu),
    ("EXP", _softplus),
    ("LOGISTIC", _mish),
]

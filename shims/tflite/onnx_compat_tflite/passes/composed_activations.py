"""mul(mul(x, 0.5), add(erf(mul(x, 0.7071)), 1))  =>  gelu(x)

Also elu, leaky_relu, prelu, softplus and mish. Exporters compose these activations of simpler operators. The emitter
has a shorter form for each, mostly a kernel. The pass runs on the recorded program: the emitter emits the simpler
operators in many forms.

Conditions: float32, the target runtime has the kernel that `_FINDERS` names, and the result has the shape of x. Bodies
of loops and branches are not rewritten.
"""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.passes import Replacement, program_pass, record_program, rewrite_region
from onnx_compat.primitives import Application, rule
from onnx_compat.shim import Const, Emitter, Node, Port, Program, Ref, Region, Spec, is_equal
from onnx_compat_tflite.emitter import TFLiteEmitter

__all__ = ["composed_activations"]


class _Product(NamedTuple):
    """A product number * values[0] * values[1] * ...; the values are refs or constants, and may repeat."""

    number: float
    values: List[Any]


#: (primitive of the activation, its arguments, its parameters); None if the node does not compute the activation.
_Match = Optional[Tuple[str, List[Any], Dict[str, Any]]]

Arg = Any  # An argument of a node: a Ref, a Const, or None for an omitted argument.


def _example(target: Emitter) -> Program:
    from onnx_compat import primitives as p
    from onnx_compat.shim import dtypes

    zero, slope = np.float32(0), np.float32(0.5)
    return record_program(
        lambda x: [p.where(p.less(x, zero), p.mul(x, slope), x)], [Port("x", dtypes.float32, (2, 3))], target, ["y"]
    )


@program_pass(
    "composed_activations", "where(less(x, 0), a * x, x) => leaky_relu(x, a); also gelu, elu, prelu, ...", _example
)
def composed_activations(region: Region, target: Emitter) -> Tuple[Region, int]:
    """Replace composed activations by primitives of the TFLite emitter. Return the new region and the number of rewrites.

    Applies under the conditions of this module. An activation is replaced only if the target runtime has its kernel.
    Without a rewrite, returns `region` itself. `target` must be a TFLiteEmitter.
    """
    assert isinstance(target, TFLiteEmitter)
    finders = [find for builtin, find in _FINDERS if target.builder.kernels.accepts(builtin, "float32")]
    return rewrite_region(region, lambda node: _find_activation(node, finders))


@rule("gelu", "elu", "leaky_relu", "prelu", "softplus", "mish")
def _activation_rule(application: Application) -> Sequence[Spec]:
    """Infer the type of an activation's single result, as a list: dtype and shape of the first argument."""
    return [application.spec(0)]


def _find_activation(node: Node, finders: Sequence[Callable[[Node], _Match]]) -> Optional[Replacement]:
    """Return the activation primitive that replaces a node: the match of the first of `finders` that can be used.

    A match can be used if the activation's argument has the dtype and shape of the node's result. Returns None if no
    match can be used, if the result is not float32, or if the node has several results.
    """
    if len(node.outputs) != 1 or node.outputs[0].spec.dtype.name != "float32":
        return None
    for find in finders:
        match = find(node)
        if match is not None and match[1][0].spec == node.outputs[0].spec:
            return Replacement(*match)
    return None


# -- looking at values -----------------------------------------------------------------------------------------------------
def _producer(arg: Arg, *primitives: str) -> Optional[Node]:
    """Return the node that computes `arg`, if it applies one of these primitives.

    Returns None for another node, and for an argument that no node computes.
    """
    node = arg.node if isinstance(arg, Ref) else None
    return node if node is not None and node.primitive in primitives else None


def _number(arg: Arg) -> Optional[float]:
    """Return the value of a floating-point constant with a single element.

    Returns None for any other argument, also for an integer constant.
    """
    if isinstance(arg, Const) and arg.array.size == 1 and arg.array.dtype.kind == "f":
        return float(arg.array.reshape(()))
    return None


def _addend(node: Optional[Node], number: float) -> Any:
    """Return x if the node computes x + number, number + x, or x - (-number).

    Returns None for any other node, and if `node` is None.
    """
    if node is None or node.primitive not in ("add", "sub"):
        return None
    x, y = node.args
    if node.primitive == "add" and _number(x) is not None:
        x, y = y, x
    value = _number(y)
    return x if value is not None and (value if node.primitive == "add" else -value) == number else None


def _product(arg: Arg) -> _Product:
    """Expand `arg` recursively into a number times values: x * (y / 2) => 0.5, [x, y].

    Expanded are `mul`, `div` by a constant other than 0, and `pow` of 2 or 3. A floating-point constant with a single
    element is a number without values. Any other `arg` is a single value, with the number 1.
    """
    node = _producer(arg, "mul", "div", "pow")
    if node is None:
        value = _number(arg)
        return _Product(1.0, [arg]) if value is None else _Product(value, [])
    x, y = node.args
    left, right = _product(x), _number(y)
    if node.primitive == "mul":
        factor = _product(y)
        return _Product(left.number * factor.number, left.values + factor.values)
    if node.primitive == "div" and right:
        return _Product(left.number / right, left.values)
    if node.primitive == "pow" and right in (2, 3):
        return _Product(left.number ** int(right), left.values * int(right))
    return _Product(1.0, [arg])


def _is_close(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-5, atol=0))


def _is_power(product: _Product, number: float, x: Arg, exponent: int) -> bool:
    """Whether a product is number * x^exponent: its number within a relative 1e-5, its values all x itself."""
    return (
        _is_close(product.number, number)
        and len(product.values) == exponent
        and all(value is x for value in product.values)
    )


# -- the activations -------------------------------------------------------------------------------------------------------
def _match_gelu(node: Node) -> _Match:
    """Return gelu as a `_Match` if the node computes x / 2 * (1 + erf(x / sqrt 2)).

    The approximation x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) gives a match with the parameter
    `approximate` True. The node is a mul or div. The factors may be in any order that `_product` expands. Returns None
    for any other node.
    """
    if node.primitive not in ("mul", "div"):
        return None
    whole = _product(node.outputs[0])
    if len(whole.values) != 2 or not _is_close(whole.number, 0.5):
        return None
    for x, factor in (whole.values, whole.values[::-1]):
        inner = _addend(_producer(factor, "add"), 1)
        curve = _producer(inner, "erf", "tanh")
        if curve is None or not isinstance(x, Ref):
            continue
        within = _product(curve.args[0])
        if curve.primitive == "erf" and _is_power(within, math.sqrt(0.5), x, 1):
            return "gelu", [x], {"approximate": False}
        if curve.primitive == "tanh" and _is_close(within.number, math.sqrt(2 / math.pi)) and _is_gelu_cubic(within, x):
            return "gelu", [x], {"approximate": True}
    return None


def _is_gelu_cubic(product: _Product, x: Ref) -> bool:
    """Whether the product has a single value, which is x + 0.044715 x^3. The number of the product is not checked."""
    node = _producer(product.values[0], "add") if len(product.values) == 1 else None
    if node is None:
        return False
    return any(a is x and _is_power(_product(b), 0.044715, x, 3) for a, b in (node.args, node.args[::-1]))


def _match_elu(node: Node) -> _Match:
    """Return elu as a `_Match` if the node computes max(x, 0) + (exp(min(x, 0)) - 1). Returns None for any other node."""
    for left, right in (node.args, node.args[::-1]) if node.primitive == "add" else ():
        above, below = _producer(left, "clip"), _producer(_addend(_producer(right, "add", "sub"), -1), "exp")
        clipped = _producer(below.args[0], "clip") if below is not None else None
        if above is None or clipped is None or above.args[0] is not clipped.args[0]:
            continue
        if _bounds(above) == (0, None) and _bounds(clipped) == (None, 0):
            return "elu", [above.args[0]], {}
    return None


def _bounds(clip: Node) -> Tuple[Any, Any]:
    """Return (lower bound, upper bound) of a clip node. A missing bound is None."""
    return clip.params.get("low"), clip.params.get("high")


def _match_leaky_relu(node: Node) -> _Match:
    """Return leaky_relu as a `_Match`, with the parameter `alpha`, if the node computes it with a scalar slope a.

    The forms are

    - max(x, a * x) with 0 < a <= 1
    - where(x < 0, a * x, x)
    - max(x, 0) - a * max(-x, 0)

    Returns None for any other node.
    """
    for x, share in (node.args, node.args[::-1]) if node.primitive == "maximum" else ():
        product = _product(share)
        if isinstance(x, Ref) and _is_power(product, product.number, x, 1) and 0 < product.number <= 1:
            return "leaky_relu", [x], {"alpha": product.number}
    branch = _slope_below_zero(node)
    slope = _number(branch[1]) if branch is not None else None
    return ("leaky_relu", [branch[0]], {"alpha": slope}) if branch is not None and slope is not None else None


def _slope_below_zero(node: Node) -> Optional[Tuple[Ref, Const]]:
    """Return (x, slope) if the node computes x for x >= 0 and slope * x for x < 0.

    The slope is a constant of any shape. The node must have the form of `_slope_of_choice` or `_slope_of_sum`. Returns
    None for any other node.
    """
    return _slope_of_choice(node) or _slope_of_sum(node)


def _slope_of_choice(node: Node) -> Optional[Tuple[Ref, Const]]:
    """Return (x, slope) if the node is where(less(x, 0), slope * x, x), with a constant slope of any shape.

    Returns None for any other node.
    """
    if node.primitive != "where":
        return None
    condition, share, x = node.args
    less, product = _producer(condition, "less"), _producer(share, "mul")
    if less is None or product is None or less.args[0] is not x or _number(less.args[1]) != 0:
        return None
    slope = next((b for a, b in (product.args, product.args[::-1]) if a is x and isinstance(b, Const)), None)
    return (x, slope) if isinstance(x, Ref) and slope is not None else None


def _slope_of_sum(node: Node) -> Optional[Tuple[Ref, Const]]:
    """Return (x, slope) if the node is max(x, 0) - slope * max(-x, 0), as Keras exports it.

    For a sum max(x, 0) + c * max(-x, 0), the slope is -c. The slope is a constant of any shape. Returns None for any
    other node.
    """
    if node.primitive not in ("add", "sub"):
        return None
    for positive, share in (node.args, node.args[::-1]) if node.primitive == "add" else (node.args,):
        x, product = _relu_input(positive), _producer(share, "mul")
        for part, slope in (product.args, product.args[::-1]) if product is not None else ():
            mirrored = _producer(_relu_input(part), "neg")
            if isinstance(slope, Const) and isinstance(x, Ref) and mirrored is not None and mirrored.args[0] is x:
                return x, Const(slope.array if node.primitive == "sub" else -slope.array, slope.spec.dtype)
    return None


def _relu_input(arg: Arg) -> Any:
    """Return x if `arg` is computed as max(x, 0): a clip with the lower bound 0 and no upper bound.

    Returns None for any other argument.
    """
    node = _producer(arg, "clip")
    return node.args[0] if node is not None and _bounds(node) == (0, None) else None


def _match_prelu(node: Node) -> _Match:
    """Return prelu as a `_Match` if the node computes x for x >= 0 and slope * x for x < 0. See `_slope_below_zero`.

    The slope is a constant with an element for each index of the last axis. Returns None if

    - the node has another form,
    - x has a rank below 2,
    - the slope varies along another axis, or has a single element for several channels.
    """
    branch = _slope_below_zero(node)
    if branch is None:
        return None
    x, slope = branch
    shape = slope.spec.shape
    if (
        x.spec.rank < 2
        or not shape
        or not is_equal(shape[-1], x.spec.shape[-1])
        or any(size != 1 for size in shape[:-1])
    ):
        return None
    return "prelu", [x, slope], {}


def _match_softplus(node: Node) -> _Match:
    """Return softplus as a `_Match` if the node computes it as onnx-compat composes it.

    The node is an add of the form max(x, 0) + 2 * atanh(e / (e + 2)), in any order, with e = exp(-|x|). Returns None
    for any other node.
    """
    for left, right in (node.args, node.args[::-1]) if node.primitive == "add" else ():
        above, rest = _producer(left, "clip"), _product(right)
        atanh = _producer(rest.values[0], "atanh") if len(rest.values) == 1 and rest.number == 2 else None
        quotient = _producer(atanh.args[0], "div") if atanh is not None else None
        small = _producer(quotient.args[0], "exp") if quotient is not None else None
        if above is None or quotient is None or small is None or _bounds(above) != (0, None):
            continue
        negative = _producer(small.args[0], "neg")
        size = _producer(negative.args[0], "abs") if negative is not None else None
        if size is None or size.args[0] is not above.args[0]:
            continue
        if _addend(_producer(quotient.args[1], "add"), 2) is small.outputs[0]:
            return "softplus", [above.args[0]], {}
    return None


def _match_mish(node: Node) -> _Match:
    """Return mish as a `_Match` if the node computes x * tanh(softplus(x)). Returns None for any other node.

    The softplus has the form of `_match_softplus`.
    """
    for x, factor in (node.args, node.args[::-1]) if node.primitive == "mul" else ():
        curve = _producer(factor, "tanh")
        softplus = _producer(curve.args[0], "add") if curve is not None else None
        match = _match_softplus(softplus) if softplus is not None else None
        if match is not None and match[1][0] is x:
            return "mish", [x], {}
    return None


_FINDERS: List[Tuple[str, Callable[[Node], _Match]]] = [
    ("GELU", _match_gelu),
    ("ELU", _match_elu),
    ("LEAKY_RELU", _match_leaky_relu),
    ("PRELU", _match_prelu),
    ("EXP", _match_softplus),
    ("LOGISTIC", _match_mish),
]

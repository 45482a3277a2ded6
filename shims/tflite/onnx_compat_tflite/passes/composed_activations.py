"""mul(mul(x, 0.5), add(erf(mul(x, 0.7071)), 1))  =>  gelu(x)

Also elu, leaky_relu, prelu, softplus and mish. Exporters compose these activations of simpler operators. The emitter
has a shorter form for each, mostly a kernel. The pass runs on the recorded program: the emitter emits the simpler
operators in many forms.

Conditions: float32, the target runtime has the kernel that `_FINDERS` names, and the result has the shape of x. Bodies
of loops and branches are not rewritten.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.passes import Replacement, program_pass, record_program, rewrite_region
from onnx_compat.primitives import Application, rule
from onnx_compat.shim import Const, Emitter, Node, Port, Program, Ref, Region, Spec, is_equal
from onnx_compat.shim.activation_matches import (
    Arg,
    Match,
    bounds_of,
    is_power,
    match_elu,
    match_gelu,
    match_mish,
    match_softplus,
    number_of,
    producer_of,
    product_of,
)
from onnx_compat_tflite.emitter import TFLiteEmitter

__all__ = ["composed_activations"]


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
    """Replace composed activations by primitives of the TFLite emitter; return (new region, number of rewrites).

    Applies under the conditions of this module. An activation is replaced only if the target runtime has the float32
    kernel that `_FINDERS` names. Without a rewrite, returns `region` itself. `target` must be a TFLiteEmitter.
    """
    assert isinstance(target, TFLiteEmitter)
    finders = [find for builtin, find in _FINDERS if target.builder.kernels.accepts(builtin, "float32")]
    return rewrite_region(region, lambda node: _find_activation(node, finders))


@rule("gelu", "elu", "leaky_relu", "prelu", "softplus", "mish")
def _activation_rule(application: Application) -> Sequence[Spec]:
    """Infer the type of an activation's single result, as a list: dtype and shape of the first argument."""
    return [application.spec(0)]


def _find_activation(node: Node, finders: Sequence[Callable[[Node], Match]]) -> Optional[Replacement]:
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
# -- the activations -------------------------------------------------------------------------------------------------------
def match_leaky_relu(node: Node) -> Match:
    """Return leaky_relu as a `Match`, with the parameter `alpha`, if the node computes it with a scalar slope a.

    The forms are

    - max(x, a * x) with 0 < a <= 1
    - where(x < 0, a * x, x)
    - max(x, 0) - a * max(-x, 0)

    Returns None for any other node.
    """
    for x, share in (node.args, node.args[::-1]) if node.primitive == "maximum" else ():
        product = product_of(share)
        if isinstance(x, Ref) and is_power(product, product.number, x, 1) and 0 < product.number <= 1:
            return "leaky_relu", [x], {"alpha": product.number}
    branch = _slope_below_zero(node)
    slope = number_of(branch[1]) if branch is not None else None
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
    less, product = producer_of(condition, "less"), producer_of(share, "mul")
    if less is None or product is None or less.args[0] is not x or number_of(less.args[1]) != 0:
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
        x, product = _relu_input(positive), producer_of(share, "mul")
        for part, slope in (product.args, product.args[::-1]) if product is not None else ():
            mirrored = producer_of(_relu_input(part), "neg")
            if isinstance(slope, Const) and isinstance(x, Ref) and mirrored is not None and mirrored.args[0] is x:
                return x, Const(slope.array if node.primitive == "sub" else -slope.array, slope.spec.dtype)
    return None


def _relu_input(arg: Arg) -> Any:
    """Return x if `arg` is computed as max(x, 0): a clip with the lower bound 0 and no upper bound.

    Returns None for any other argument.
    """
    node = producer_of(arg, "clip")
    return node.args[0] if node is not None and bounds_of(node) == (0, None) else None


def match_prelu(node: Node) -> Match:
    """Return prelu as a `Match` if the node computes x for x >= 0 and slope * x for x < 0. See `_slope_below_zero`.

    The slope is a constant with an element for each index of the last axis. Returns None if

    - the node has another form,
    - x has a rank below 2,
    - the slope is a scalar without axes, varies along another axis, or has a single element for several channels.
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


_FINDERS: List[Tuple[str, Callable[[Node], Match]]] = [
    ("GELU", match_gelu),
    ("ELU", match_elu),
    ("LEAKY_RELU", match_leaky_relu),
    ("PRELU", match_prelu),
    ("EXP", match_softplus),
    ("LOGISTIC", match_mish),
]

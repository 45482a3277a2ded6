"""Recognise compositions of primitives as operators that the target has.

    mul(mul(x, 0.5), add(erf(mul(x, 0.7071)), 1))                   =>  Gelu(x)
    mul(x, sigmoid(mul(x, 1.702)))                                  =>  Swish(x, alpha=1.702)
    mul(div(d, sqrt(add(reduce_mean(mul(d, d)), eps))), scale)      =>  LayerNormalization(x, scale, epsilon=eps)
                                   with d = sub(x, reduce_mean(x))

A node of the model that the target has as a whole is recorded as such (see `natives`). The recogniser serves programs
without operators, the parts of fused operators, and operators that the target lacks.

Conditions: the target computes the operator as specified for the dtype, which numpy has; the result of an activation
has the shape of x.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.ir import Arg, Const, Node, Ref, Region, Spec, dtypes
from onnx_compat.ir.dims import is_equal_shape
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.rewriter import Replacement, rewrite_region
from onnx_compat.onnx_shim.equivalents import NodeCall
from onnx_compat.onnx_shim.natives import native_call
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.shim import activation_matches as matches
from onnx_compat.shim.activation_matches import number_of, producer_of

__all__ = ["form_of", "recognize_operators"]

_PREFIX = "form:"


class Form(NamedTuple):
    """An operator of ai.onnx that computes a composition, in the form of version `opset`."""

    operator: str
    opset: int
    args: List[Any]
    attributes: Dict[str, Any]


def recognize_operators(region: Region, offer: OperatorOffer) -> Region:
    """Return a copy of a region with operators in place of compositions, also in the bodies of branches and loops.

    `offer`: the operators of the target. If no composition is recognised, return `region` itself.
    """

    def rewrite(node: Node) -> Optional[Replacement]:
        form = next(filter(None, (find(node) for find in _FINDERS)), None) if _has_result_of_floats(node) else None
        if form is None or not _is_offered(form, offer):
            return None
        return Replacement("%s%s:%d" % (_PREFIX, form.operator, form.opset), form.args, form.attributes)

    return rewrite_region(region, rewrite, nested=True)[0]


def form_of(primitive: str) -> Optional[Tuple[str, int]]:
    """Return (operator, opset) of a node that `recognize_operators` wrote. None: the node applies a primitive."""
    if not primitive.startswith(_PREFIX):
        return None
    operator, _, opset = primitive[len(_PREFIX) :].partition(":")
    return operator, int(opset)


def _has_result_of_floats(node: Node) -> bool:
    dtype = node.outputs[0].spec.dtype if len(node.outputs) == 1 else dtypes.int64
    return dtype.kind == "f" and dtype.native


def _is_offered(form: Form, offer: OperatorOffer) -> bool:
    call = NodeCall("", form.operator, form.opset, tuple(arg.spec for arg in form.args), form.attributes, 1)
    return native_call(call, offer, lambda _: None, lambda array: Spec(DType.of(array.dtype), array.shape)) is not None


# -- activations -------------------------------------------------------------------------------------------------------
#: Activation -> its operator, version and attributes.
_ACTIVATIONS: Dict[str, Tuple[str, int, Dict[str, Any]]] = {
    "elu": ("Elu", 6, {}),
    "hard_sigmoid": ("HardSigmoid", 6, {"alpha": 1 / 6, "beta": 0.5}),
    "hard_swish": ("HardSwish", 14, {}),
    "mish": ("Mish", 18, {}),
    "softplus": ("Softplus", 1, {}),
    "softsign": ("Softsign", 1, {}),
}


def _activation(match: Callable[[Node], matches.Match]) -> Callable[[Node], Optional[Form]]:
    """Return a function: node -> `Form` of the activation that the node computes, or None.

    `match`: a function of `activation_matches`.
    """

    def find_activation(node: Node) -> Optional[Form]:
        matched = match(node)
        if matched is None or matched[1][0].spec != node.outputs[0].spec:
            return None
        kind, args, params = matched
        if kind == "gelu":
            return Form("Gelu", 20, args, {"approximate": "tanh"} if params["approximate"] else {})
        operator, opset, attributes = _ACTIVATIONS[kind]
        return Form(operator, opset, args, attributes)

    return find_activation


def _find_swish(node: Node) -> Optional[Form]:
    """Return Swish if the node computes x * sigmoid(alpha * x), else None."""
    for x, factor in (node.args, node.args[::-1]) if node.primitive == "mul" else ():
        curve = producer_of(factor, "sigmoid")
        slope = _factor_of(curve.args[0], x) if curve is not None and isinstance(x, Ref) else None
        if slope is not None:
            return Form("Swish", 24, [x], {} if slope == 1 else {"alpha": slope})
    return None


def _factor_of(arg: Arg, x: Ref) -> Optional[float]:
    """Return the number a if `arg` is computed as x * a, and 1 if it is x itself.

    None: `arg` is computed in another way, or a is no known number.
    """
    if arg is x:
        return 1.0
    product = producer_of(arg, "mul")
    for value, factor in (product.args, product.args[::-1]) if product is not None else ():
        if value is x:
            return number_of(factor)
    return None


# -- normalizations ----------------------------------------------------------------------------------------------------
class _Normalized(NamedTuple):
    """A normalization of x over the axes from `axis` on, without scale and bias.

    `is_centered`: whether the mean is subtracted first, as in LayerNormalization but not in RMSNormalization.
    """

    x: Ref
    axis: int
    epsilon: float
    is_centered: bool


def _find_norm(arg: Arg) -> Optional[_Normalized]:
    """Return the normalization that computes `arg`: y / sqrt(mean(y * y) + epsilon).

    y is x, or x - mean(x). None: `arg` is computed in another way.
    """
    values = _quotient(arg)
    root = producer_of(values[1], "sqrt") if values is not None else None
    total = producer_of(root.args[0], "add") if root is not None else None
    if values is None or total is None:
        return None
    for mean, addend in (total.args, total.args[::-1]):
        epsilon, squares = number_of(addend), producer_of(mean, "reduce_mean")
        axis = _last_axes(squares)
        if epsilon is None or squares is None or axis is None or not _is_square(squares.args[0], values[0]):
            continue
        return _of_values(values[0], axis, epsilon)
    return None


def _quotient(arg: Arg) -> Optional[Tuple[Arg, Arg]]:
    """Return (dividend, divisor) if `arg` is computed as x / y or x * (1 / y), else None."""
    quotient = producer_of(arg, "div")
    if quotient is not None:
        return quotient.args[0], quotient.args[1]
    product = producer_of(arg, "mul")
    for x, factor in (product.args, product.args[::-1]) if product is not None else ():
        inverse = producer_of(factor, "div")
        if inverse is not None and number_of(inverse.args[0]) == 1:
            return x, inverse.args[1]
    return None


def _of_values(values: Arg, axis: int, epsilon: float) -> Optional[_Normalized]:
    """Return the normalization with the dividend `values`. None: `values` is a constant.

    It is the centered normalization of x if `values` is x - mean(x) over the axes from `axis` on. Otherwise it is the
    normalization of `values` itself, which is not centered.
    """
    if not isinstance(values, Ref):
        return None
    difference = producer_of(values, "sub")
    mean = producer_of(difference.args[1], "reduce_mean") if difference is not None else None
    if difference is not None and mean is not None:
        x = difference.args[0]
        if isinstance(x, Ref) and mean.args[0] is x and _last_axes(mean) == axis:
            return _Normalized(x, axis, epsilon, True)
    return _Normalized(values, axis, epsilon, False)


def _is_square(arg: Arg, values: Arg) -> bool:
    square = producer_of(arg, "mul", "pow")
    if square is None or square.args[0] is not values:
        return False
    return square.args[1] is values if square.primitive == "mul" else number_of(square.args[1]) == 2


def _last_axes(mean: Optional[Node]) -> Optional[int]:
    """Return the first reduced axis of the node `mean`, a reduce_mean over the last axes with keepdims.

    None: the node reduces other axes, does not keep them, or reads a constant; or `mean` is None.
    """
    if mean is None or not mean.params["keepdims"] or not isinstance(mean.args[0], Ref):
        return None
    axes, rank = sorted(mean.params["axes"]), mean.args[0].spec.rank
    return axes[0] if axes and axes == list(range(axes[0], rank)) else None


def _find_normalization(node: Node) -> Optional[Form]:
    """Return LayerNormalization or RMSNormalization of float32 if the node computes it, else None.

    The scale and the bias must have the shape of the normalized axes. RMSNormalization has no bias.
    """
    spec = node.outputs[0].spec
    scaled, bias = (node, None) if node.primitive == "mul" else _operands(node, "add")
    for values, scale in (scaled.args, scaled.args[::-1]) if scaled is not None else ():
        normal = _find_norm(values)
        if normal is None or spec.dtype != dtypes.float32 or normal.x.spec != spec:
            continue
        sizes = spec.shape[normal.axis :]
        vectors = [scale] if bias is None else [scale, bias]
        if not all(isinstance(vector, (Ref, Const)) and is_equal_shape(vector.spec.shape, sizes) for vector in vectors):
            continue
        attributes = {"axis": normal.axis - spec.rank, "epsilon": normal.epsilon}
        if normal.is_centered:
            return Form("LayerNormalization", 17, [normal.x, *vectors], attributes)
        if bias is None:
            return Form("RMSNormalization", 23, [normal.x, scale], attributes)
    return None


def _operands(node: Node, primitive: str) -> Tuple[Optional[Node], Any]:
    """Return (product, addend) of a node, if a factor of the product is a normalization. Otherwise (None, None).

    `primitive`: the primitive that the node must apply, such as "add".
    """
    for product, addend in (node.args, node.args[::-1]) if node.primitive == primitive else ():
        producer = producer_of(product, "mul")
        if producer is not None and _has_normalization(producer):
            return producer, addend
    return None, None


def _has_normalization(product: Node) -> bool:
    return any(_find_norm(arg) is not None for arg in product.args)


_FINDERS: Sequence[Callable[[Node], Optional[Form]]] = (
    *map(
        _activation,
        (
            matches.match_hard_swish,
            matches.match_hard_sigmoid,
            matches.match_gelu,
            matches.match_elu,
            matches.match_mish,
            matches.match_softplus,
            matches.match_softsign,
        ),
    ),
    _find_swish,
    _find_normalization,
)

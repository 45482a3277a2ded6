"""Conv, Gemm and MatMul of com.microsoft, fused with the operators that follow: a sum, a factor, an activation."""

from functools import wraps
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ops import activation as a
from onnx_compat.ops.convolution import conv
from onnx_compat.ops.linear import gemm, matmul
from onnx_compat.ops.microsoft.activations import quick_gelu
from onnx_compat.ops.microsoft.common import DOMAIN, channels_first, channels_last
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor

Ints = Optional[Sequence[int]]


def _scaled_tanh(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return p.tanh(x * beta) * alpha


def _parametric_softplus(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return a.softplus(x * beta) * alpha


#: Name -> (function, the names of its parameters in the order of activation_params).
_ACTIVATIONS: Dict[str, Tuple[Callable[..., Tensor], Tuple[str, ...]]] = {
    "": (lambda x: x, ()),
    "Relu": (p.relu, ()),
    "Tanh": (p.tanh, ()),
    "Sigmoid": (p.sigmoid, ()),
    "Softplus": (a.softplus, ()),
    "Softsign": (a.softsign, ()),
    "Gelu": (a.gelu, ()),
    "HardSwish": (a.hard_swish, ()),
    "QuickGelu": (quick_gelu, ("alpha",)),
    "LeakyRelu": (a.leaky_relu, ("alpha",)),
    "Elu": (a.elu, ("alpha",)),
    "Celu": (a.celu, ("alpha",)),
    "ThresholdedRelu": (a.thresholded_relu, ("alpha",)),
    "Selu": (a.selu, ("alpha", "gamma")),
    "HardSigmoid": (a.hard_sigmoid, ("alpha", "beta")),
    "ScaledTanh": (_scaled_tanh, ("alpha", "beta")),
    "ParametricSoftplus": (_parametric_softplus, ("alpha", "beta")),
    "Softmax": (a.softmax, ("axis",)),
    "LogSoftmax": (a.log_softmax, ("axis",)),
    "Clip": (p.clip, ("low", "high")),
}
#: The activations whose parameters have no defaults: ONNX 1.0 declared none for these operators.
_WITHOUT_DEFAULTS = ("ScaledTanh", "ParametricSoftplus")


def _find_activation(name: str) -> Tuple[Callable[..., Tensor], Tuple[str, ...]]:
    if name not in _ACTIVATIONS:
        raise UnsupportedError(
            "the fused activation '%s' is not known" % name,
            hint="let onnxruntime write the model with a lower optimisation level",
        )
    return _ACTIVATIONS[name]


def _activate(x: Tensor, name: str, parameters: Dict[str, Any]) -> Tensor:
    """Apply an activation by name; "" returns x.

    The activation takes the `parameters` (by name) that it has. An absent parameter, or None, has the activation's
    default. Raises UnsupportedError for an unknown name, and InvalidModelError for an absent parameter without a
    default.
    """
    function, names = _find_activation(name)
    given = {parameter: parameters[parameter] for parameter in names if parameters.get(parameter) is not None}
    missing = [parameter for parameter in names if parameter not in given]
    if missing and name in _WITHOUT_DEFAULTS:
        raise InvalidModelError("the fused activation '%s' needs the parameter %s" % (name, " and ".join(missing)))
    return function(x, **given)


@op("FusedConv", since=1, domain=DOMAIN)
def fused_conv(
    X: Tensor,
    W: Tensor,
    B: Optional[Tensor] = None,
    Z: Optional[Tensor] = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return activation(Conv(X, W, B) + Z). An absent Z is 0, an absent activation the identity.

    `activation_params` are in the order of the parameters in `_ACTIVATIONS`; without any, they have the activation's
    defaults. Raises UnsupportedError for an unknown activation. Raises InvalidModelError if `activation_params` has
    entries, but not one for each parameter.
    """
    names = _find_activation(activation)[1]
    if activation_params and len(activation_params) != len(names):
        raise InvalidModelError(
            "activation_params has %d entries, the activation '%s' takes %d"
            % (len(activation_params), activation, len(names))
        )
    window: Dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    y = conv(X, W, B, group=group, strides=strides, **window)
    y = y if Z is None else p.add(y, Z)
    return _activate(y, activation, dict(zip(names, activation_params)))


@op("NhwcFusedConv", since=1, domain=DOMAIN)
@wraps(fused_conv, assigned=())  # the same signature
def nhwc_fused_conv(X: Tensor, W: Tensor, B: Optional[Tensor] = None, Z: Optional[Tensor] = None, **how: Any) -> Tensor:
    """Return activation(Conv(X, W, B) + Z), where X, Z and the result are images with the channels last.

    The filters W have the channels first: [M, C / group, kernel...]. `how` has the attributes of `fused_conv`. Raises
    UnsupportedError for an unknown activation, and InvalidModelError for attributes that do not fit.
    """
    return channels_last(fused_conv(channels_first(X), W, B, None if Z is None else channels_first(Z), **how))


@op("FusedGemm", since=1, domain=DOMAIN)
def fused_gemm(
    A: Tensor,
    B: Tensor,
    C: Optional[Tensor] = None,
    *,
    activation: str = "",
    activation_alpha: Optional[float] = None,
    activation_beta: Optional[float] = None,
    activation_gamma: Optional[float] = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Return activation(alpha * A' @ B' + beta * C). The default is no activation.

    A' is A, transposed if transA is nonzero. B' is B, transposed if transB is nonzero. C broadcasts to the product; an
    absent C is 0. activation_alpha, activation_beta and activation_gamma are the parameters of the activation. An
    absent parameter has the activation's default. Raises UnsupportedError for an unknown activation, and
    InvalidModelError for an absent parameter without a default.
    """
    y = gemm(A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activate(y, activation, {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma})


@op("FusedMatMulActivation", since=1, domain=DOMAIN)
def fused_matmul_activation(
    A: Tensor,
    B: Tensor,
    *,
    activation: str,
    activation_alpha: Optional[float] = None,
    activation_axis: Optional[int] = None,
    activation_beta: Optional[float] = None,
    activation_gamma: Optional[float] = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """Return activation(FusedMatMul(A, B)).

    The attributes that begin with `activation_` are the parameters of the activation. An absent parameter has the
    activation's default. The other attributes are those of FusedMatMul. Raises UnsupportedError for an unknown
    activation, and InvalidModelError for an absent parameter without a default.
    """
    y = fused_matmul(A, B, alpha=alpha, transA=transA, transB=transB, transBatchA=transBatchA, transBatchB=transBatchB)
    parameters = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    return _activate(y, activation, dict(parameters, axis=activation_axis))


@op("FusedMatMul", since=1, domain=DOMAIN)
def fused_matmul(
    A: Tensor,
    B: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """Return alpha * A' @ B'. A' and B' are A and B, transposed by the attributes.

    - transBatchA, transBatchB: if nonzero, first move the first axis before the last: [a, b, c, d] -> [b, c, a, d].
    - transA, transB: if nonzero, then swap the last two axes.

    A vector is not transposed.
    """
    left, right = _transpose_operand(A, transA, transBatchA), _transpose_operand(B, transB, transBatchB)
    if B.known:
        return matmul(left, right * alpha)
    if A.known:
        return matmul(left * alpha, right)
    return matmul(left, right) * alpha


def _transpose_operand(x: Tensor, transpose_matrix: int, move_batch_axis: int) -> Tensor:
    """Return an operand of FusedMatMul, transposed; a vector or scalar unchanged.

    - move_batch_axis: first, move the first axis before the last: [a, b, c, d] -> [b, c, a, d].
    - transpose_matrix: then, swap the last two axes: [a, b, c, d] -> [a, b, d, c].
    """
    axes: List[int] = list(range(x.rank))
    if x.rank < 2:
        return x
    if move_batch_axis:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if transpose_matrix:
        axes = [*axes[:-2], axes[-1], axes[-2]]
    return p.transpose(x, axes)


op("TransposeMatMul", since=1, domain=DOMAIN)(older_version(fused_matmul, without=["transBatchA", "transBatchB"]))

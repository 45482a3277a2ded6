"""The table of raw ops: the names of their tensor parameters, and a trial case of one element for each op.

The dtypes for which an op has a kernel differ between releases. So `Features` tries each op and dtype once. If there is no
kernel, a `Route` converts the operands to a dtype that has a kernel.
"""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from onnx_compat_tensorflow.framework_types import RawOps, TfTensor

__all__ = ["ACCUMULATING", "Kernel", "Route", "call", "kernel", "routes", "trial"]


class Kernel(NamedTuple):
    """A raw op: `inputs` names the parameters for the tensors whose dtype selects the kernel.

    `shapes` (a shape for each input) and `attributes` (the other parameters by name) are the op's trial case.
    """

    inputs: Tuple[str, ...] = ("x", "y")
    shapes: Tuple[Tuple[int, ...], ...] = ((1,), (1,))
    attributes: Dict[str, Any] = {}


def _unary_kernel(name: str, size: Tuple[int, ...] = (1,), **attributes: Any) -> Kernel:
    """Return the `Kernel` of an op with one tensor parameter, `name`. `size`: the shape of its trial tensor."""
    return Kernel((name,), (size,), attributes)


def _binary_kernel(
    first: str, second: str, shape: Tuple[int, ...], second_shape: Tuple[int, ...], **attributes: Any
) -> Kernel:
    """Return the `Kernel` of an op with two tensor parameters: their names, and the shapes of their trial tensors."""
    return Kernel((first, second), (shape, second_shape), attributes)


_IMAGE, _VOLUME = (1, 1, 1, 1), (1, 1, 1, 1, 1)
_STRIDES, _STRIDES3 = [1, 1, 1, 1], [1, 1, 1, 1, 1]

_KERNELS: Dict[str, Kernel] = {
    "ArgMax": _unary_kernel("input", dimension=0),
    "ArgMin": _unary_kernel("input", dimension=0),
    "Atan2": _binary_kernel("y", "x", (1,), (1,)),
    "AvgPool": _unary_kernel("value", _IMAGE, ksize=_STRIDES, strides=_STRIDES, padding="VALID"),
    "AvgPool3D": _unary_kernel("input", _VOLUME, ksize=_STRIDES3, strides=_STRIDES3, padding="VALID"),
    "BatchMatMulV2": Kernel(shapes=((1, 1, 1), (1, 1, 1))),
    "BiasAdd": _binary_kernel("value", "bias", (1, 1), (1,)),
    "BroadcastTo": _unary_kernel("input", shape=[2]),
    "Conv2D": _binary_kernel("input", "filter", _IMAGE, _IMAGE, strides=_STRIDES, padding="VALID"),
    "Conv2DBackpropInput": _binary_kernel(
        "out_backprop", "filter", _IMAGE, _IMAGE, input_sizes=[1, 1, 1, 1], strides=_STRIDES, padding="VALID"
    ),
    "Conv3D": _binary_kernel("input", "filter", _VOLUME, _VOLUME, strides=_STRIDES3, padding="VALID"),
    "Conv3DBackpropInputV2": _binary_kernel(
        "out_backprop", "filter", _VOLUME, _VOLUME, input_sizes=[1, 1, 1, 1, 1], strides=_STRIDES3, padding="VALID"
    ),
    "Cumsum": _unary_kernel("x", axis=0),
    "DepthwiseConv2dNative": _binary_kernel("input", "filter", _IMAGE, _IMAGE, strides=_STRIDES, padding="VALID"),
    "GatherNd": _unary_kernel("params", indices=[[0]]),
    "LogSoftmax": _unary_kernel("logits", (1, 1)),
    "MatMul": _binary_kernel("a", "b", (1, 1), (1, 1)),
    "Max": _unary_kernel("input", axis=[0]),
    "MaxPool": _unary_kernel("input", _IMAGE, ksize=_STRIDES, strides=_STRIDES, padding="VALID"),
    "MaxPool3D": _unary_kernel("input", _VOLUME, ksize=_STRIDES3, strides=_STRIDES3, padding="VALID"),
    "Mean": _unary_kernel("input", axis=[0]),
    "Min": _unary_kernel("input", axis=[0]),
    "PadV2": _binary_kernel("input", "constant_values", (1,), (), paddings=[[1, 1]]),
    "Prod": _unary_kernel("input", axis=[0]),
    "Range": Kernel(("start", "limit", "delta"), ((), (), ())),
    "Relu": _unary_kernel("features"),
    "Relu6": _unary_kernel("features"),
    "ReverseV2": _unary_kernel("tensor", axis=[0]),
    "SelectV2": Kernel(("t", "e"), attributes={"condition": [True]}),
    "Softmax": _unary_kernel("logits", (1, 1)),
    "Sum": _unary_kernel("input", axis=[0]),
    "TensorScatterAdd": _binary_kernel("tensor", "updates", (1,), (1,), indices=[[0]]),
    "TensorScatterMax": _binary_kernel("tensor", "updates", (1,), (1,), indices=[[0]]),
    "TensorScatterMin": _binary_kernel("tensor", "updates", (1,), (1,), indices=[[0]]),
    "TensorScatterUpdate": _binary_kernel("tensor", "updates", (1,), (1,), indices=[[0]]),
    "Tile": _unary_kernel("input", multiples=[2]),
    "TopKV2": _unary_kernel("input", k=1),
    "Transpose": _unary_kernel("x", (1, 1), perm=[1, 0]),
    "UnsortedSegmentMax": _unary_kernel("data", segment_ids=[0], num_segments=1),
    "UnsortedSegmentMin": _unary_kernel("data", segment_ids=[0], num_segments=1),
    "UnsortedSegmentProd": _unary_kernel("data", segment_ids=[0], num_segments=1),
}
_PLAIN = Kernel()


def kernel(op: str) -> Kernel:
    """Return the table entry of a raw op. For an op that is not in the table, the entry has the parameters x and y.

    That entry also serves ops with the parameter x alone, such as `Exp`: `call` and `trial` use only as many parameters
    as there are tensors.
    """
    return _KERNELS.get(op, _PLAIN)


def call(raw: RawOps, op: str, tensors: Sequence[TfTensor], attributes: Dict[str, Any]) -> Any:
    """Return `raw.<op>(...)`.

    The tensors are passed, in order, as the parameters that `kernel(op).inputs` names. `attributes` are passed by name.
    """
    return getattr(raw, op)(**dict(zip(kernel(op).inputs, tensors)), **attributes)


def trial(op: str, operands: int, dtype: np.dtype) -> List[np.ndarray]:
    """Return arrays for the first `operands` inputs of an op's trial case: ones in this dtype, or b"a" for strings."""
    fill: Any = b"a" if dtype.kind == "O" else 1
    return [np.full(shape, fill, dtype) for shape in kernel(op).shapes[:operands]]


class Route(NamedTuple):
    """A way to apply an op that has no kernel for a dtype: convert the operands to another dtype, `dtype`.

    `conversion` is

    - "cast": to a dtype that represents every value
    - "bits": the bits are reinterpreted
    - "order": the bits are reinterpreted and the highest bit is flipped, so that unsigned numbers keep their order
    """

    dtype: str
    conversion: str


#: Ops that only move elements: any dtype of the same width gives the same result.
_MOVES = frozenset(
    "BroadcastTo GatherNd PadV2 ReverseV2 SelectV2 TensorScatterUpdate Tile Transpose Equal NotEqual".split()
)
#: Ops whose result has the same bits for signed and unsigned numbers, because overflow wraps.
_RINGS = frozenset(
    "AddV2 Sub Mul Neg Pow Sum Prod Cumsum MatMul BatchMatMulV2 TensorScatterAdd UnsortedSegmentProd".split()
)
#: Ops that compare numbers: unsigned numbers need a route that keeps their order.
_ORDERS = frozenset(
    "Maximum Minimum Less LessEqual Greater GreaterEqual Max Min ArgMax ArgMin TopKV2 MaxPool "
    "TensorScatterMax TensorScatterMin UnsortedSegmentMax UnsortedSegmentMin".split()
)
#: Ops that sum many numbers: float16 is too narrow for the sum.
ACCUMULATING = frozenset(
    "Sum Mean Prod Cumsum Softmax LogSoftmax MatMul BatchMatMulV2 Conv2D Conv3D DepthwiseConv2dNative "
    "Conv2DBackpropInput Conv3DBackpropInputV2 AvgPool AvgPool3D TensorScatterAdd UnsortedSegmentProd".split()
)

_SAME_BITS = {"uint8": "int8", "int8": "uint8", "uint16": "int16", "uint32": "int32", "uint64": "int64"}
_WIDER = {
    "bool": ("uint8", "int32"),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "int32": ("int64",),
    "uint32": ("int64",),
    "float16": ("float32",),
    "float32": ("float64",),
    "complex64": ("complex128",),
}


def routes(op: str, dtype: str) -> List[Route]:
    """Return a list of the routes to try for an op and a dtype, in this order; [] if there is no route.

    A returned route may lead to a dtype without a kernel.
    """
    candidates = [Route(wider, "cast") for wider in _WIDER.get(dtype, ())]
    same = _SAME_BITS.get(dtype)
    if same is not None and (op in _MOVES or (op in _RINGS and dtype.startswith("u"))):
        candidates.insert(0, Route(same, "bits"))
    if op in _ORDERS and dtype == "uint64":
        candidates.append(Route("int64", "order"))
    return candidates

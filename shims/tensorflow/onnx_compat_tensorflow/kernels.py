"""The raw ops that the emitter uses beside plain element-wise ones: how their tensors are called, and a tiny case of each.

A kernel is registered for some dtypes and not for others, and which ones changes from release to release. So an op is
tried once on one element (see `Features`), and where it refuses, a `Route` leads through a dtype that it takes.
"""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

__all__ = ["ACCUMULATING", "Kernel", "Route", "call", "kernel", "routes", "trial"]


class Kernel(NamedTuple):
    """`inputs`: the parameters that are tensors of the dtype T. `shapes` and `attributes`: a case to try it on."""

    inputs: Tuple[str, ...] = ("x", "y")
    shapes: Tuple[Tuple[int, ...], ...] = ((1,), (1,))
    attributes: Dict[str, Any] = {}


def _one(name: str, size: Tuple[int, ...] = (1,), **attributes: Any) -> Kernel:
    return Kernel((name,), (size,), attributes)


def _two(first: str, second: str, one: Tuple[int, ...], two: Tuple[int, ...], **attributes: Any) -> Kernel:
    return Kernel((first, second), (one, two), attributes)


_IMAGE, _VOLUME = (1, 1, 1, 1), (1, 1, 1, 1, 1)
_STRIDES, _STRIDES3 = [1, 1, 1, 1], [1, 1, 1, 1, 1]

_KERNELS: Dict[str, Kernel] = {
    "ArgMax": _one("input", dimension=0),
    "ArgMin": _one("input", dimension=0),
    "Atan2": _two("y", "x", (1,), (1,)),
    "AvgPool": _one("value", _IMAGE, ksize=_STRIDES, strides=_STRIDES, padding="VALID"),
    "AvgPool3D": _one("input", _VOLUME, ksize=_STRIDES3, strides=_STRIDES3, padding="VALID"),
    "BatchMatMulV2": Kernel(shapes=((1, 1, 1), (1, 1, 1))),
    "BiasAdd": _two("value", "bias", (1, 1), (1,)),
    "BroadcastTo": _one("input", shape=[2]),
    "Conv2D": _two("input", "filter", _IMAGE, _IMAGE, strides=_STRIDES, padding="VALID"),
    "Conv2DBackpropInput": _two(
        "out_backprop", "filter", _IMAGE, _IMAGE, input_sizes=[1, 1, 1, 1], strides=_STRIDES, padding="VALID"
    ),
    "Conv3D": _two("input", "filter", _VOLUME, _VOLUME, strides=_STRIDES3, padding="VALID"),
    "Conv3DBackpropInputV2": _two(
        "out_backprop", "filter", _VOLUME, _VOLUME, input_sizes=[1, 1, 1, 1, 1], strides=_STRIDES3, padding="VALID"
    ),
    "Cumsum": _one("x", axis=0),
    "DepthwiseConv2dNative": _two("input", "filter", _IMAGE, _IMAGE, strides=_STRIDES, padding="VALID"),
    "GatherNd": _one("params", indices=[[0]]),
    "LogSoftmax": _one("logits", (1, 1)),
    "MatMul": _two("a", "b", (1, 1), (1, 1)),
    "Max": _one("input", axis=[0]),
    "MaxPool": _one("input", _IMAGE, ksize=_STRIDES, strides=_STRIDES, padding="VALID"),
    "MaxPool3D": _one("input", _VOLUME, ksize=_STRIDES3, strides=_STRIDES3, padding="VALID"),
    "Mean": _one("input", axis=[0]),
    "Min": _one("input", axis=[0]),
    "PadV2": _two("input", "constant_values", (1,), (), paddings=[[1, 1]]),
    "Prod": _one("input", axis=[0]),
    "Range": Kernel(("start", "limit", "delta"), ((), (), ())),
    "Relu": _one("features"),
    "Relu6": _one("features"),
    "ReverseV2": _one("tensor", axis=[0]),
    "SelectV2": Kernel(("t", "e"), attributes={"condition": [True]}),
    "Softmax": _one("logits", (1, 1)),
    "Sum": _one("input", axis=[0]),
    "TensorScatterAdd": _two("tensor", "updates", (1,), (1,), indices=[[0]]),
    "TensorScatterMax": _two("tensor", "updates", (1,), (1,), indices=[[0]]),
    "TensorScatterMin": _two("tensor", "updates", (1,), (1,), indices=[[0]]),
    "TensorScatterUpdate": _two("tensor", "updates", (1,), (1,), indices=[[0]]),
    "Tile": _one("input", multiples=[2]),
    "TopKV2": _one("input", k=1),
    "Transpose": _one("x", (1, 1), perm=[1, 0]),
    "UnsortedSegmentMax": _one("data", segment_ids=[0], num_segments=1),
    "UnsortedSegmentMin": _one("data", segment_ids=[0], num_segments=1),
    "UnsortedSegmentProd": _one("data", segment_ids=[0], num_segments=1),
}
_PLAIN = Kernel()


def kernel(op: str) -> Kernel:
    """What is known of an op; element-wise ones need no entry."""
    return _KERNELS.get(op, _PLAIN)


def call(raw: Any, op: str, tensors: Sequence[Any], attributes: Dict[str, Any]) -> Any:
    """The raw op of this name on these tensors."""
    return getattr(raw, op)(**dict(zip(kernel(op).inputs, tensors)), **attributes)


def trial(op: str, operands: int, dtype: np.dtype) -> List[np.ndarray]:
    """Operands to try an op on: ones."""
    fill: Any = b"a" if dtype.kind == "O" else 1
    return [np.full(shape, fill, dtype) for shape in kernel(op).shapes[:operands]]


class Route(NamedTuple):
    """Through another dtype: by a `cast` that keeps every value, by its `bits`, or by its bits with the highest one
    turned over (`order`), which maps unsigned to signed numbers without a change of order.
    """

    dtype: str
    how: str


#: Ops that only move elements: any dtype of the same width will do.
_MOVES = frozenset(
    "BroadcastTo GatherNd PadV2 ReverseV2 SelectV2 TensorScatterUpdate Tile Transpose Equal NotEqual".split()
)
#: Ops that are the same for signed and unsigned numbers, because they wrap.
_RINGS = frozenset(
    "AddV2 Sub Mul Neg Pow Sum Prod Cumsum MatMul BatchMatMulV2 TensorScatterAdd UnsortedSegmentProd".split()
)
_ORDERS = frozenset(
    "Maximum Minimum Less LessEqual Max Min ArgMax ArgMin TopKV2 MaxPool TensorScatterMax TensorScatterMin "
    "UnsortedSegmentMax UnsortedSegmentMin".split()
)
#: Ops that add many numbers up: float16 is not enough to do it in.
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
    """The ways around a missing kernel, the best first."""
    found = [Route(wider, "cast") for wider in _WIDER.get(dtype, ())]
    same = _SAME_BITS.get(dtype)
    if same is not None and (op in _MOVES or (op in _RINGS and dtype.startswith("u"))):
        found.insert(0, Route(same, "bits"))
    if op in _ORDERS and dtype == "uint64":
        found.append(Route("int64", "order"))
    return found

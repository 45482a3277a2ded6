"""SLICE(x, 0), SLICE(x, n), ...          =>  SPLIT(x), where the slices cover x
RESHAPE(SPLIT(RESHAPE(x)))             =>  RESHAPE(SPLIT(x))

Attention and recurrent cells compute several tensors (queries, keys and values, or gates) as a single product and slice
it.

First rewrite (slices_to_split): x is float32 or int32. All SLICEs of x along one axis have equal sizes and constant
bounds, do not overlap, and together cover x. There are at most four, the limit of SPLIT in XNNPACK.

Second rewrite (split_before_reshape): the inner RESHAPE only divides the last axis, and the SPLIT, along the first new
axis, is its only reader. RESHAPEs are the only readers of the results of the SPLIT, and no result is an output.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["slices_to_split", "split_before_reshape"]

_TYPES = ("float32", "int32")
_MAX_PARTS = 4


class _Slice(NamedTuple):
    """A SLICE that shortens a single axis of the tensor `source`: `length` elements from `start` on."""

    source: int
    axis: int
    start: int
    length: int
    op: fb.OperatorSpec


def _slices_example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 6))
    parts = graph.slices(graph.inputs[0], [(0, 0), (0, 2), (0, 4)], (2, 2))
    return graph.model(*[graph.op("ABS", [part], (2, 2)) for part in parts])


@graph_pass(
    "slices_to_split", "SLICE(x, 0), SLICE(x, n), ... => SPLIT(x), where the slices cover x", _slices_example,
    after=("integer_kernels",),
)  # fmt: skip
def slices_to_split(graph: GraphRewriter, context: Context) -> int:
    """Replace SLICEs of equal size that together cover a tensor by a SPLIT, at the position of the first SLICE.

    These SLICEs are all SLICEs of the tensor along one axis: at most four, with constant bounds and without overlap.
    The tensor is float32 or int32. Returns the number of SPLITs.
    """
    groups: Dict[Tuple[int, int], List[_Slice]] = {}
    for op in graph.operators:
        part = _find_slice(graph, op)
        if part is not None:
            groups.setdefault((part.source, part.axis), []).append(part)
    count = 0
    for (source, axis), parts in groups.items():
        ordered = sorted(parts, key=lambda part: part.start)
        length = ordered[0].length
        is_even = all(part.length == length and part.start == k * length for k, part in enumerate(ordered))
        if len(parts) <= _MAX_PARTS and is_even and length * len(parts) == graph.sizes(source)[axis]:
            for part in parts[1:]:
                graph.erase(part.op)
            _write_split(graph, parts[0].op, source, axis, [part.op.outputs[0] for part in ordered])
            count += 1
    return count


def _find_slice(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[_Slice]:
    """Return the `_Slice` of a SLICE operator that has constant bounds and shortens a single axis.

    `length` is -1 if the size of the result along the axis is open. Returns None for

    - any other op, or a dtype that is neither float32 nor int32,
    - bounds that are no constants,
    - a SLICE of the whole tensor, or along several axes.
    """
    source = op.inputs[0] if op.builtin == "SLICE" else None
    if source is None or graph.tensor(source).dtype not in _TYPES:
        return None
    begin, size = (graph.constant(index) for index in op.inputs[1:])
    whole, left = graph.sizes(source), graph.sizes(op.outputs[0])
    if begin is None or size is None:
        return None
    cut = [k for k, (first, many, full) in enumerate(zip(begin, size, whole)) if first or many not in (-1, full)]
    return _Slice(source, cut[0], int(begin[cut[0]]), int(left[cut[0]]), op) if len(cut) == 1 else None


def _write_split(graph: GraphRewriter, op: fb.OperatorSpec, source: int, axis: int, outputs: List[int]) -> None:
    along = graph.add_constant(graph.tensor(outputs[0]).name + "/axis", np.asarray(axis, np.int32))
    graph.replace_op(op, "SPLIT", [along, source], num_splits=len(outputs))
    graph.set_outputs(op, outputs)


def _reshape_example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 8))
    x = graph.move("RESHAPE", graph.inputs[0], [2, 4, 2], (2, 4, 2))
    parts = [graph.spec.add(fb.TensorSpec("part%d" % k, "float32", (2, 2, 2))) for k in range(2)]
    axis = graph.constant(1, np.int32)
    graph.spec.operators.append(fb.OperatorSpec("SPLIT", [axis, x], parts, {"num_splits": 2}))
    return graph.model(*[graph.move("RESHAPE", part, [4, 2], (4, 2)) for part in parts])


@graph_pass(
    "split_before_reshape", "RESHAPE(SPLIT(RESHAPE(x))) => RESHAPE(SPLIT(x))", _reshape_example,
    after=("slices_to_split",),
)  # fmt: skip
def split_before_reshape(graph: GraphRewriter, context: Context) -> int:
    """Split the input of a RESHAPE instead of its result, if all results of the SPLIT are reshaped again.

    Example: x [n, 3 * 64] is reshaped to [n, 3, 64] and split along axis 1. After the rewrite, x is split along its
    last axis. Conditions: the first RESHAPE only divides the last axis, and its only reader is the SPLIT along the
    first new axis. RESHAPEs are the only readers of the SPLIT's results, and no result is an output. Returns the number
    of changed SPLITs.
    """
    count = 0
    for split in graph.operators:
        reshape = graph.producer(split.inputs[1], "RESHAPE") if split.builtin == "SPLIT" else None
        source, axis = (None, None) if reshape is None else (reshape.inputs[0], graph.number(split.inputs[0]))
        if reshape is None or source is None or axis is None or not graph.is_only_read_by(reshape.outputs[0], split):
            continue
        whole, cut = graph.sizes(source), graph.sizes(reshape.outputs[0])
        rest = cut[int(axis) % len(cut) :]
        is_reshaped = all(_is_only_reshaped(graph, part) for part in split.outputs)
        if min(rest) < 1 or whole[-1] != int(np.prod(rest)) or not is_reshaped:
            continue
        parts = [_add_part(graph, source, part, len(split.outputs)) for part in split.outputs]
        for old, new in zip(split.outputs, parts):
            graph.replace_reads(old, new)
        _write_split(graph, split, source, len(whole) - 1, parts)
        count += 1
    return count


def _is_only_reshaped(graph: GraphRewriter, index: int) -> bool:
    return not graph.is_output(index) and all(reader.builtin == "RESHAPE" for reader in graph.readers(index))


def _add_part(graph: GraphRewriter, source: int, part: int, count: int) -> int:
    """Append a tensor with the shape of `source`, but with the last axis divided by `count`; return its index.

    `part`: the old result of the SPLIT. Its name begins the new name.
    """
    whole, name = graph.tensor(source), graph.tensor(part).name + "/flat"
    shape, signature = (
        [*sizes[:-1], sizes[-1] // count] if sizes else None for sizes in (whole.shape, whole.shape_signature)
    )
    return graph.add_tensor(name, whole.dtype, shape or (), signature)

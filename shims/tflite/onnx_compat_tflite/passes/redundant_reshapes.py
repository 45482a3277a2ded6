"""RESHAPE(RESHAPE(x, a), b) => RESHAPE(x, b)        CAST(CAST(x, wide), t) => CAST(x, t)        RESHAPE(x, own shape) => x

Also EXPAND_DIMS and SQUEEZE as the inner RESHAPE, a CAST to the same dtype, and RESHAPE(CAST(PACK(x)), []) => CAST(x).

Conditions: the intermediate dtype of two CASTs represents every value of the first dtype. A shape that a RESHAPE keeps is static,
or has a single open size and no size of zero.
"""

from typing import Optional

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["redundant_reshapes"]

_RESHAPES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
#: Dtype -> the wider dtypes that represent each of its values.
_WIDER = {
    "bool": ("uint8", "int8", "int16", "int32", "int64", "float32"),
    "int8": ("int16", "int32", "int64", "float32"),
    "uint8": ("int16", "int32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "int32": ("int64",),
    "uint32": ("int64",),
    "float16": ("float32",),
}


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 6))
    inner = graph.move("RESHAPE", graph.inputs[0], [12], (12,))
    return graph.model(graph.move("RESHAPE", inner, [3, 4], (3, 4)))


@graph_pass("redundant_reshapes", "RESHAPE(RESHAPE(x, a), b) => RESHAPE(x, b); the same for CAST", _example)
def redundant_reshapes(graph: GraphRewriter, context: Context) -> int:
    """Remove redundant RESHAPEs and CASTs; return the number of rewrites.

    - RESHAPE(CAST(PACK(x)), []) => CAST(x) for a scalar x
    - RESHAPE(RESHAPE(x)) => RESHAPE(x); the inner op may also be EXPAND_DIMS or SQUEEZE
    - CAST(CAST(x)) => CAST(x), if the inner dtype represents every value of x
    - RESHAPE(x) => x and CAST(x) => x, if they change nothing (see `_copied_tensor`)

    An inner operator that is skipped is not erased.
    """
    count = sum(_bypass_pack(graph, op) for op in graph.operators if op.builtin == "RESHAPE")
    for op in graph.operators:
        if op.builtin == "RESHAPE":
            inner = graph.producer(op.inputs[0], *_RESHAPES)
            if inner is not None and inner.inputs[0] is not None:
                graph.set_input(op, 0, inner.inputs[0])
                count += 1
        elif op.builtin == "CAST":
            source = _source_of_wider_cast(graph, op)
            if source is not None:
                graph.set_input(op, 0, source)
                graph.set_options(op, in_data_type=graph.tensor(source).dtype)
                count += 1
    for op in graph.operators:
        same = _copied_tensor(graph, op)
        if same is not None:
            count += graph.bypass(op, same)
    return count


def _bypass_pack(graph: GraphRewriter, op: fb.OperatorSpec) -> bool:
    """Rewrite RESHAPE(CAST(PACK(x)), []) => CAST(x) for a scalar x; return whether it was rewritten.

    `op` is the RESHAPE. It must be the only reader of the CAST, whose result must be no output. The RESHAPE is erased.
    Loop counters that are compared with a size have this form.
    """
    cast = graph.producer(op.inputs[0], "CAST")
    pack = None if cast is None else graph.producer(cast.inputs[0], "PACK")
    if cast is None or pack is None or len(pack.inputs) > 1 or pack.inputs[0] is None or graph.sizes(op.outputs[0]):
        return False
    if not graph.is_only_read_by(cast.outputs[0], op) or graph.sizes(pack.inputs[0]):
        return False
    graph.set_input(cast, 0, pack.inputs[0])
    graph.take_outputs(cast, op)
    return True


def _source_of_wider_cast(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[int]:
    """Return the tensor index of x if `op` computes CAST(CAST(x)), and the inner dtype represents every value of x.

    `_WIDER` has the inner dtypes for each dtype of x. `op` must be a CAST. Returns None for any other CAST.
    """
    inner = graph.producer(op.inputs[0], "CAST")
    if inner is None or inner.inputs[0] is None:
        return None
    first, between = (graph.tensor(index).dtype for index in (inner.inputs[0], inner.outputs[0]))
    return inner.inputs[0] if between in _WIDER.get(first, ()) else None


def _copied_tensor(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[int]:
    """Return the input's tensor index of an operator that changes nothing.

    The operator is a RESHAPE to the same shape, or a CAST to the same dtype. Returns None for any other operator.
    Returns None also for a RESHAPE with several open sizes, or with an open size and a size of zero. The two shapes may
    then differ at run time.
    """
    source = op.inputs[0] if op.builtin in ("RESHAPE", "CAST") else None
    if source is None:
        return None
    if op.builtin == "CAST":
        return source if graph.tensor(source).dtype == graph.tensor(op.outputs[0]).dtype else None
    sizes = tuple(graph.sizes(source))
    is_static = min(sizes, default=1) >= 0 or (sizes.count(-1) == 1 and 0 not in sizes)
    return source if is_static and sizes == tuple(graph.sizes(op.outputs[0])) else None

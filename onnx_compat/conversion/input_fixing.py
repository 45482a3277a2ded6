"""A model with sizes or values of its inputs settled, as a file may need it: see `convert`."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from onnx_compat.errors import InputError
from onnx_compat.execution.feeds import check_feed
from onnx_compat.model import Graph, Initializer, Model, TensorType, ValueInfo

__all__ = ["Shapes", "fix_inputs"]

Shapes = Mapping[str, Sequence[Optional[int]]]


def fix_inputs(model: Model, shapes: Optional[Shapes] = None, values: Optional[Mapping[str, Any]] = None) -> Model:
    """The same model with these shapes of inputs (None: that size stays as it is), and these values in place of inputs.

    A size with a name is settled wherever an input has it.
    """
    graph = model.graph
    names = [one.name for one in graph.inputs]
    told = dict(shapes or {})
    unknown = [name for name in told if name not in names]
    if unknown:
        raise InputError("the model has no input named '%s'" % unknown[0], hint="the model's inputs are %s" % (names,))
    sizes: Dict[str, int] = {}
    shaped = [_shaped(one, told[one.name], sizes) if one.name in told else one for one in graph.inputs]
    inputs = [_sized(one, sizes) for one in shaped]
    initializers = dict(graph.initializers)
    for name, value in check_feed(values or {}, inputs, []).items():
        initializers[name] = _initializer(name, value)
    settled = Graph(graph.name, inputs, graph.outputs, graph.nodes, initializers, graph.value_info, graph.doc)
    return Model(
        settled,
        model.opsets,
        model.ir_version,
        model.path,
        model.functions,
        model.metadata,
        model.producer,
        model.source,
        model.data_files,
    )


def _shaped(one: ValueInfo, shape: Sequence[Optional[int]], sizes: Dict[str, int]) -> ValueInfo:
    """With this shape; what that says of named sizes goes to `sizes`."""
    kind = one.type
    if not isinstance(kind, TensorType):
        raise InputError(
            "the input '%s' has no shape to fix: it is %s" % (one.name, kind or "untyped"), hint="leave it out"
        )
    declared: Sequence[Any] = (None,) * len(shape) if kind.shape is None else kind.shape
    if len(declared) != len(shape):
        raise InputError(
            "the input '%s' has rank %d, not %d: %s" % (one.name, len(declared), len(shape), kind),
            hint="give a size for each of its axes; None (?) leaves one open",
        )
    found: List[Any] = []
    for before, size in zip(declared, shape):
        if size is not None and not hasattr(size, "__index__"):
            raise InputError(
                "a size of the input '%s' is a number, or None to leave it open, not %r" % (one.name, size)
            )
        wanted = sizes.setdefault(before, size) if isinstance(before, str) and size is not None else before
        if size is not None and (size < 0 or (isinstance(wanted, int) and wanted != size)):
            named = isinstance(before, str) and wanted != size
            raise InputError(
                "a size of the input '%s' cannot be %d: it is %s" % (one.name, size, kind),
                hint="the size '%s' is %s already: it is the same wherever it has this name" % (before, wanted)
                if named
                else "give the size that the model has there",
            )
        found.append(before if size is None else size)
    return ValueInfo(one.name, TensorType(kind.dtype, tuple(found)))


def _sized(one: ValueInfo, sizes: Mapping[str, int]) -> ValueInfo:
    """With the named sizes that are known by now."""
    if not isinstance(one.type, TensorType) or one.type.shape is None:
        return one
    shape = [sizes.get(size, size) if isinstance(size, str) else size for size in one.type.shape]
    return ValueInfo(one.name, TensorType(one.type.dtype, tuple(shape)))


def _initializer(name: str, value: Any) -> Initializer:
    if not isinstance(value, tuple):
        raise InputError("the input '%s' is no tensor: its value cannot be fixed" % name)
    array, dtype = value
    return Initializer(name, dtype, array.shape, lambda: array)

"""Fix inputs of a model to shapes or values, because a file format may need sizes or values that are known: see
`convert`.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from onnx_compat.errors import InputError
from onnx_compat.execution.feeds import CheckedValue, check_feed
from onnx_compat.model import Graph, Initializer, Model, TensorType, ValueInfo

__all__ = ["Shapes", "fix_inputs"]

Shapes = Mapping[str, Sequence[Optional[int]]]


def fix_inputs(model: Model, shapes: Optional[Shapes] = None, values: Optional[Mapping[str, Any]] = None) -> Model:
    """Return a copy of the model in which inputs have fixed shapes, or are replaced by constants.

    - shapes: input name -> sizes. A size of None stays as the model has it. A number for a named size ("N") replaces
      this name in all inputs. The declared outputs keep the name.
    - values: input name -> value. The value becomes the default of the input, so that `Model.inputs` no longer lists
      the input.

    Raises an InputError in these cases:

    - A name is no input of the model, or the input is no tensor.
    - A size is neither None nor an integer >= 0.
    - A rank, a size or a value contradicts the model, or two numbers are given for one named size.

    Raises UnsupportedError if a value has a dtype that ONNX lacks.
    """
    graph = model.graph
    names = [port.name for port in graph.inputs]
    given_shapes = dict(shapes or {})
    unknown = [name for name in given_shapes if name not in names]
    if unknown:
        raise InputError("the model has no input named '%s'" % unknown[0], hint="the model's inputs are %s" % (names,))
    sizes: Dict[str, int] = {}
    shaped_inputs = [
        _apply_shape(port, given_shapes[port.name], sizes) if port.name in given_shapes else port
        for port in graph.inputs
    ]
    inputs = [_apply_symbols(port, sizes) for port in shaped_inputs]
    initializers = dict(graph.initializers)
    for name, value in check_feed(values or {}, inputs, []).items():
        initializers[name] = _initializer(name, value)
    fixed_graph = Graph(graph.name, inputs, graph.outputs, graph.nodes, initializers, graph.value_info, graph.doc)
    return model.with_graph(fixed_graph)


def _apply_shape(port: ValueInfo, shape: Sequence[Optional[int]], sizes: Dict[str, int]) -> ValueInfo:
    """Return the input `port` with fixed sizes. A size of None in `shape` stays as declared.

    An input of unknown rank takes any shape. `sizes` (name -> number) has the named sizes that were fixed before. A
    named size that `shape` fixes is added to `sizes`, in place.

    Raises InputError in these cases:

    - The input is no tensor.
    - A size is negative, or neither an integer nor None.
    - The rank or a size differs from the declared type.
    - A named size differs from its number in `sizes`.
    """
    kind = port.type
    if not isinstance(kind, TensorType):
        raise InputError(
            "the input '%s' has no shape to fix: it is %s" % (port.name, kind or "untyped"), hint="leave it out"
        )
    declared: Sequence[Any] = (None,) * len(shape) if kind.shape is None else kind.shape
    if len(declared) != len(shape):
        raise InputError(
            "the input '%s' has rank %d, not %d: %s" % (port.name, len(declared), len(shape), kind),
            hint="give a size for each of its axes; None (?) leaves one open",
        )
    fixed_shape: List[Any] = []
    for declared_size, size in zip(declared, shape):
        if size is not None and not hasattr(size, "__index__"):
            raise InputError(
                "a size of the input '%s' is a number, or None to leave it open, not %r" % (port.name, size)
            )
        required_size = (
            sizes.setdefault(declared_size, size)
            if isinstance(declared_size, str) and size is not None
            else declared_size
        )
        if size is not None and (size < 0 or (isinstance(required_size, int) and required_size != size)):
            is_symbol = isinstance(declared_size, str) and required_size != size
            raise InputError(
                "a size of the input '%s' cannot be %d: it is %s" % (port.name, size, kind),
                hint="the size '%s' is %s already: it is the same wherever it has this name"
                % (declared_size, required_size)
                if is_symbol
                else "give the size that the model has there",
            )
        fixed_shape.append(declared_size if size is None else size)
    return ValueInfo(port.name, TensorType(kind.dtype, tuple(fixed_shape)))


def _apply_symbols(port: ValueInfo, sizes: Mapping[str, int]) -> ValueInfo:
    """Return the input with each symbolic size that is in `sizes` replaced by its number.

    An input that is no tensor, or has no known rank, is returned unchanged.
    """
    if not isinstance(port.type, TensorType) or port.type.shape is None:
        return port
    shape = [sizes.get(size, size) if isinstance(size, str) else size for size in port.type.shape]
    return ValueInfo(port.name, TensorType(port.type.dtype, tuple(shape)))


def _initializer(name: str, value: CheckedValue) -> Initializer:
    """Return an initializer `name` that holds a checked value. Raise an InputError if the value is no tensor."""
    if not isinstance(value, tuple):
        raise InputError("the input '%s' is no tensor: its value cannot be fixed" % name)
    array, dtype = value
    return Initializer(name, dtype, array.shape, lambda: array)

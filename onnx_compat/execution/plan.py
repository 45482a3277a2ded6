"""A model recorded for one form of its inputs, and ways to run it: compiled by the shim, or executed as it is traced."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.conversion import port_layout
from onnx_compat.errors import NeedsKnownError, OnnxCompatError, ShimError
from onnx_compat.execution.feeds import Feed, InputForm, MapItems, flatten_value, form_ports, input_form, rebuild_value
from onnx_compat.ir import Extents, Ref, Spec, input_dependencies
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import Graph, Model, SequenceType
from onnx_compat.passes import CORE, run_program_passes
from onnx_compat.shim.interface import Compiled, Emitter, Port, Program
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import check_program, record_program, start_trace
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["CompiledPlan", "ImmediatePlan", "Specialisation", "TracedModel", "trace_model"]


class TracedModel(NamedTuple):
    """A model as a program, and how its outputs are put together from the program's."""

    program: Program
    tree: List[Any]  # an output: an index of the program's outputs, a known (array, dtype), a list, Pairs, or NOTHING
    done: Dict[str, str]  # node name -> 'native' or 'composed'


class Specialisation(NamedTuple):
    """What a recording takes for granted: the values of some inputs, the shapes of others, and the inputs and outputs
    that have their channels last, unlike the model's.
    """

    values: Feed = {}
    shapes: Dict[str, Tuple[int, ...]] = {}
    channels_last: Sequence[str] = ()


def program_inputs(graph: Graph, forms: Dict[str, InputForm], fixed: Specialisation) -> List[Port]:
    types = {one.name: one.type for one in graph.inputs}
    found: List[Port] = []
    for name, form in forms.items():
        if name not in fixed.values:
            open_ports = form_ports(name, form, types[name])
            shape = fixed.shapes.get(name) if form.kind == "tensor" else None
            found.extend(open_ports if shape is None else [port._replace(shape=shape) for port in open_ports])
    return found


def trace_model(
    model: Model,
    emitter: Emitter,
    forms: Dict[str, InputForm],
    fixed: Specialisation,
    interpreter: Interpreter,
    whole: bool = False,
    own: bool = False,
) -> TracedModel:
    """Record the model for inputs of these forms. With `whole`, outputs that are known already are in the program too:
    a file has to hold them. With `own`, nobody else has the model: its weights are let go of, and are not kept beside
    what is made of them.
    """
    graph = model.graph
    turned = set(fixed.channels_last)
    given = [
        port_layout.channels_last_port(port) if port.name in turned else port
        for port in program_inputs(graph, forms, fixed)
    ]
    inputs: Dict[Ref, str] = {}
    trees: List[List[Any]] = []
    leaves: List[Tensor] = []

    def body(*tensors: Tensor) -> Sequence[Tensor]:
        inputs.update((tensor.ref, _input(port.name, forms)) for tensor, port in zip(tensors, given) if tensor.ref)
        as_written = [port_layout.to_channels_first(x) if port.name in turned else x for x, port in zip(tensors, given)]
        values = interpreter.run(graph, _traced_inputs(graph, forms, fixed, as_written))
        results = [
            port_layout.to_channels_last(y, one.name) if one.name in turned else y
            for one, y in zip(graph.outputs, values)
        ]
        trees.append([_leaf(value, leaves, whole) for value in results])
        return leaves + interpreter.read

    try:
        program = record_program(body, given, emitter, name=graph.name or "model")
    except NeedsKnownError as error:
        error.values, error.sizes = _origins(error, inputs)
        raise
    if own:
        for initializer in graph.initializers.values():
            initializer.release()
    program = program._replace(region=run_program_passes(CORE, program.region, emitter))
    program = check_program(_named(program, trees[0], [one.name for one in graph.outputs]))
    return TracedModel(program, trees[0], interpreter.done)


def _input(port: str, forms: Dict[str, InputForm]) -> str:
    """The graph input that a port belongs to: itself, or the sequence whose item it is."""
    while port not in forms:
        port = port.rpartition(".")[0]
    return port


def _origins(error: NeedsKnownError, inputs: Dict[Ref, str]) -> Tuple[Set[str], Set[str]]:
    """The names of the inputs that the value which is needed comes from."""
    tensor = error.value
    if tensor is None:
        return set(), set()
    arg = tensor.ref if tensor.value is None else Extents(tuple(tensor.value.reshape(-1)))
    by_value, by_size = input_dependencies((arg, Extents(tensor.shape)) if tensor.value is None else arg)
    return {inputs[ref] for ref in by_value if ref in inputs}, {inputs[ref] for ref in by_size if ref in inputs}


def _traced_inputs(
    graph: Graph, forms: Dict[str, InputForm], fixed: Specialisation, tensors: List[Tensor]
) -> List[Any]:
    values: List[Any] = []
    for one in graph.inputs:
        if one.name in fixed.values:
            values.append(_known(fixed.values[one.name]))
        elif one.name in forms:
            element = one.type.element if isinstance(one.type, SequenceType) else None
            values.append(rebuild_value(forms[one.name], tensors, getattr(element, "dtype", None)))
        else:
            values.append(None)  # the initializer of this name serves
    return values


def _known(value: Any) -> Any:
    if isinstance(value, MapItems):
        return MapValue(_known(value.keys), _known(value.values))
    array, dtype = value
    return Tensor(dtype, array.shape, array)


def _leaf(value: Any, leaves: List[Tensor], whole: bool) -> Any:
    """Where an output is found: in the program's outputs, or known already."""
    if not isinstance(value, (Tensor, SequenceValue, MapValue)):
        return EMPTY_OPTIONAL
    if isinstance(value, SequenceValue):
        return [_leaf(item, leaves, whole) for item in value.items]
    if isinstance(value, MapValue):
        return MapItems(*value).each(lambda part: _leaf(part, leaves, whole))
    if value.known and not whole:
        return value.value, value.dtype
    leaves.append(value)
    return len(leaves) - 1


def _named(program: Program, tree: List[Any], names: Sequence[str]) -> Program:
    """The program's outputs under the names of the graph's."""
    outputs = list(program.outputs)

    def visit(item: Any, name: str) -> None:
        if isinstance(item, int):
            outputs[item] = outputs[item]._replace(name=name)
        elif isinstance(item, list):
            for k, part in enumerate(item):
                visit(part, "%s.%d" % (name, k))
        elif isinstance(item, MapItems):
            visit(item.keys, name + ".keys")
            visit(item.values, name + ".values")

    for name, item in zip(names, tree):
        visit(item, name)
    return program._replace(outputs=tuple(outputs))


def assemble_output(item: Any, arrays: Sequence[np.ndarray], dtypes: Sequence[DType]) -> Any:
    """An output, in the form of a checked feed, from the program's."""
    if isinstance(item, list):
        return [assemble_output(part, arrays, dtypes) for part in item]
    if isinstance(item, MapItems):
        return item.each(lambda part: assemble_output(part, arrays, dtypes))
    return (arrays[item], dtypes[item]) if isinstance(item, int) else item


def _check(port: Port, array: np.ndarray) -> None:
    """What a shim gives must be what was recorded: never another dtype, never another shape, silently."""
    fits = array.dtype == port.dtype.numpy and array.ndim == len(port.shape)
    if not fits or any(size is not None and size != given for size, given in zip(port.sizes, array.shape)):
        raise ShimError(
            "its result for '%s' is %s%s, not %s%s"
            % (port.name, array.dtype, list(array.shape), port.dtype, list(port.shape)),
            hint="this is a defect of the shim: please report it with the model",
        )


class CompiledPlan:
    """The program in the framework's compiled form."""

    fallbacks: Sequence[str] = ()
    reasons: Mapping[str, OnnxCompatError] = {}

    def __init__(self, made: TracedModel, compiled: Optional[Compiled], fixed: Specialisation) -> None:
        self.made = made
        self.compiled = compiled
        self.fixed = frozenset(fixed.values)
        self._dtypes = [port.dtype for port in made.program.outputs]

    @property
    def native(self) -> Any:
        return self.compiled.native if self.compiled is not None else None

    @property
    def traces(self) -> int:
        return self.compiled.traces if self.compiled is not None else 0

    def run(self, feed: Feed) -> List[Any]:
        arrays = [array for name, value in feed.items() if name not in self.fixed for array in flatten_value(value)]
        results = self.compiled.run(arrays) if self.compiled is not None else []
        for port, array in zip(self.made.program.outputs, results):
            _check(port, array)
        return [assemble_output(item, results, self._dtypes) for item in self.made.tree]


class ImmediatePlan:
    """The model executed operator by operator: what no compiled form can express. `executor` makes the emitter of a run:
    an emitter holds the node under way, so two runs never share one.
    """

    fallbacks: Sequence[str] = ()
    reasons: Mapping[str, OnnxCompatError] = {}
    native = None
    traces = 0

    def __init__(self, model: Model, executor: Callable[[], Optional[Emitter]]) -> None:
        self.model = model
        self.executor = executor

    def run(self, feed: Feed) -> List[Any]:
        graph = self.model.graph
        forms = {name: input_form(value) for name, value in feed.items()}
        executor = self.executor()
        assert executor is not None
        trace = start_trace(executor, immediate=True)
        with trace.active(), executor.placed():
            tensors = []
            for port, array in zip(
                program_inputs(graph, forms, Specialisation()), (a for v in feed.values() for a in flatten_value(v))
            ):
                ref = Ref(Spec(port.dtype, tuple(array.shape)))
                ref.handle = executor.constant(array, port.dtype)
                tensors.append(Tensor(port.dtype, array.shape, ref=ref))
            values = Interpreter().run(graph, _traced_inputs(graph, forms, Specialisation(), tensors))
            return [self._fetched(trace, value) for value in values]

    def _fetched(self, trace: Any, value: Any) -> Any:
        if value is EMPTY_OPTIONAL or value is None:
            return EMPTY_OPTIONAL
        if isinstance(value, SequenceValue):
            return [self._fetched(trace, item) for item in value.items]
        if isinstance(value, MapValue):
            return MapItems(*value).each(lambda part: self._fetched(trace, part))
        return np.asarray(trace.demand(value, "an output")), value.dtype

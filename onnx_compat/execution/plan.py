"""Plan: a model that is recorded for one structure of its inputs and compiled, or executed while it is traced."""

from typing import Any, Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.conversion import port_layout
from onnx_compat.errors import NeedsKnownError, OnnxCompatError, ShimError
from onnx_compat.execution.feeds import (
    CheckedValue,
    Feed,
    InputStructure,
    MapItems,
    TracedValue,
    flatten_value,
    rebuild_value,
    structure_of,
    structure_ports,
)
from onnx_compat.ir import Arg, Extents, Ref, Spec, input_dependencies
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import Graph, Model, SequenceType
from onnx_compat.passes import CORE, run_program_passes
from onnx_compat.shim.interface import Compiled, Emitter, Port, Program
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import check_program, record_program, start_trace
from onnx_compat.tracing.trace import Trace, current_trace
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["CompiledPlan", "ImmediatePlan", "Specialisation", "TracedModel", "trace_model"]


#: How an output is assembled: the index of a program output (int), a known (array, dtype), a list of these for a
#: sequence, `MapItems` of these for a map, or EMPTY_OPTIONAL.
OutputTree = Any


class TracedModel(NamedTuple):
    """A model that is recorded as a program.

    `tree` says for each output of the model how it is assembled: see `OutputTree`. `done` maps the name of a node to
    'native' or 'composed'. The conditions of recorded branches depend on the elements of the graph inputs
    `condition_values`, and on sizes of the graph inputs `condition_sizes`. The program may be wrong for empty arrays of
    the graph inputs `nonempty`.
    """

    program: Program
    tree: List[OutputTree]
    done: Dict[str, str]
    condition_values: FrozenSet[str] = frozenset()
    condition_sizes: FrozenSet[str] = frozenset()
    nonempty: FrozenSet[str] = frozenset()


class Specialisation(NamedTuple):
    """Assumptions that a program makes in addition to the declarations of the model, and declarations that it ignores.

    values: input name -> the checked value that replaces the input, as a constant.
    shapes: input name -> the static shape of the input.
    channels_last: the names of the inputs and outputs with their channels on the last axis in the program, but on the
        second axis in the model.
    ignored_sizes: the names of declared sizes that do not stand for one size: each of their axes is open on its own.
    """

    values: Feed = {}
    shapes: Dict[str, Tuple[int, ...]] = {}
    channels_last: Sequence[str] = ()
    ignored_sizes: FrozenSet[str] = frozenset()


def program_inputs(graph: Graph, structures: Dict[str, InputStructure], fixed: Specialisation) -> List[Port]:
    """Return the input ports of the program: the ports of each input in `structures`, in order (see `structure_ports`).

    An input in `fixed.values` has no ports. A tensor in `fixed.shapes` has the fixed shape. A size in
    `fixed.ignored_sizes` is open. `fixed.channels_last` is ignored.
    """
    types = {port.name: port.type for port in graph.inputs}
    ports: List[Port] = []
    for name, structure in structures.items():
        if name not in fixed.values:
            open_ports = structure_ports(name, structure, types[name])
            shape = fixed.shapes.get(name) if structure.kind == "tensor" else None
            if shape is not None:
                open_ports = [port._replace(shape=shape) for port in open_ports]
            elif fixed.ignored_sizes:
                open_ports = [_open_sizes(port, fixed.ignored_sizes) for port in open_ports]
            ports.extend(open_ports)
    return ports


def _open_sizes(port: Port, names: FrozenSet[str]) -> Port:
    """Return the port with None in place of each size in `names`."""
    return port._replace(shape=tuple(None if size in names else size for size in port.shape))


def trace_model(
    model: Model,
    emitter: Emitter,
    structures: Dict[str, InputStructure],
    fixed: Specialisation,
    interpreter: Interpreter,
    whole: bool = False,
    own: bool = False,
) -> TracedModel:
    """Record the model as a program for inputs of the given structures, and run the core's passes on the program.

    - structures: input name -> structure, in the order of the graph's inputs. An input without an entry takes its value
      in `fixed`, or its default.
    - whole: whether outputs that are known while tracing are program outputs too, as in a file. Otherwise their values
      are in the result's `tree`.
    - own: whether the weights of the model are released after the trace, because no caller uses the model afterwards.

    With a tolerant interpreter, the values that failed nodes read are outputs of the program too.

    The OnnxCompatError of the first node that fails is raised; with a tolerant interpreter, only an InvalidModelError.
    A NeedsKnownError names the inputs to specialise on. Raises InputError if a value in `fixed.channels_last` is no
    tensor of rank 3 or more.
    """
    graph = model.graph
    channels_last = set(fixed.channels_last)
    ports = [
        port_layout.channels_last_port(port) if port.name in channels_last else port
        for port in program_inputs(graph, structures, fixed)
    ]
    inputs: Dict[Ref, str] = {}
    trees: List[List[OutputTree]] = []
    leaves: List[Tensor] = []
    positive_sizes: List[Extent] = []

    def body(*tensors: Tensor) -> Sequence[Tensor]:
        inputs.update(
            (tensor.ref, _graph_input_of(port.name, structures)) for tensor, port in zip(tensors, ports) if tensor.ref
        )
        logical_inputs = [
            port_layout.to_channels_first(x) if port.name in channels_last else x for x, port in zip(tensors, ports)
        ]
        values = interpreter.run(graph, _traced_inputs(graph, structures, fixed, logical_inputs))
        results = [
            port_layout.to_channels_last(y, port.name) if port.name in channels_last else y
            for port, y in zip(graph.outputs, values)
        ]
        positive_sizes.extend(current_trace().sizes_unlike_0)
        trees.append([_add_leaves(value, leaves, whole) for value in results])
        return leaves + interpreter.read

    try:
        program = record_program(body, ports, emitter, name=graph.name or "model")
    except NeedsKnownError as error:
        error.values, error.sizes = _inputs_behind(error, inputs)
        raise
    conditions = tuple(node.args[0] for node in program.region.nodes if node.primitive == "cond")
    condition_values, condition_sizes = _graph_inputs_behind(conditions, inputs)
    nonempty = _graph_inputs_behind(Extents(tuple(positive_sizes)), inputs)[1]
    if own:
        for initializer in graph.initializers.values():
            initializer.release()
    program = program._replace(region=run_program_passes(CORE, program.region, emitter))
    program = check_program(_name_outputs(program, trees[0], [port.name for port in graph.outputs]))
    dependencies = (frozenset(names) for names in (condition_values, condition_sizes, nonempty))
    return TracedModel(program, trees[0], interpreter.done, *dependencies)


def _graph_input_of(port: str, structures: Dict[str, InputStructure]) -> str:
    """Return the graph input that a port belongs to: its own name, or the sequence or map that holds it ("x.0" -> "x").

    Raises KeyError for a port of no input in `structures`.
    """
    name = port
    while name not in structures:
        name, dot, _ = name.rpartition(".")
        if not dot:
            raise KeyError(port)
    return name


def _inputs_behind(error: NeedsKnownError, inputs: Dict[Ref, str]) -> Tuple[Set[str], Set[str]]:
    """Return the names of graph inputs on which `error.value` depends: (the inputs by elements, the inputs by sizes).

    A name can be in both sets. Both sets are empty if `error.value` is None.

    `inputs` maps the inputs of the region to the names of graph inputs.
    """
    tensor = error.value
    if tensor is None:
        return set(), set()
    arg = tensor.ref if tensor.value is None else Extents(tuple(tensor.value.reshape(-1)))
    return _graph_inputs_behind((arg, Extents(tensor.shape)) if tensor.value is None else arg, inputs)


def _graph_inputs_behind(arg: Arg, inputs: Dict[Ref, str]) -> Tuple[Set[str], Set[str]]:
    """Return two sets of names of graph inputs on which an argument depends: by their elements, and by a size only."""
    by_value, by_size = input_dependencies(arg)
    return {inputs[ref] for ref in by_value if ref in inputs}, {inputs[ref] for ref in by_size if ref in inputs}


def _traced_inputs(
    graph: Graph, structures: Dict[str, InputStructure], fixed: Specialisation, tensors: List[Tensor]
) -> List[TracedValue]:
    """Return a list with the traced value of each graph input, in order.

    - An input in `fixed.values`: this value.
    - An input in `structures`: a value that is built from `tensors`.
    - Any other input: None, which makes the interpreter take its initializer.

    `tensors`: the program's input tensors in the same order, channels first. Used tensors are removed from the list.
    """
    values: List[TracedValue] = []
    for port in graph.inputs:
        if port.name in fixed.values:
            values.append(_to_known(fixed.values[port.name]))
        elif port.name in structures:
            element = port.type.element if isinstance(port.type, SequenceType) else None
            values.append(rebuild_value(structures[port.name], tensors, getattr(element, "dtype", None)))
        else:
            values.append(None)  # the interpreter takes the initializer of this name
    return values


def _to_known(value: CheckedValue) -> TracedValue:
    """Convert a checked tensor or map to a known Tensor, or a MapValue of two. No sequence or optional is accepted."""
    if isinstance(value, MapItems):
        return MapValue(_to_known(value.keys), _to_known(value.values))
    array, dtype = value
    return Tensor(dtype, array.shape, array)


def _add_leaves(value: TracedValue, leaves: List[Tensor], whole: bool) -> OutputTree:
    """Append the tensors of an output to `leaves`, without the known tensors unless `whole`.

    Return the `OutputTree` of the output. An index in the tree is the position in `leaves`. Any value but a tensor,
    sequence or map gives EMPTY_OPTIONAL.
    """
    if not isinstance(value, (Tensor, SequenceValue, MapValue)):
        return EMPTY_OPTIONAL
    if isinstance(value, SequenceValue):
        return [_add_leaves(item, leaves, whole) for item in value.items]
    if isinstance(value, MapValue):
        return MapItems(*value).map(lambda tensor: _add_leaves(tensor, leaves, whole))
    if value.known and not whole:
        return value.value, value.dtype
    leaves.append(value)
    return len(leaves) - 1


def _name_outputs(program: Program, tree: List[OutputTree], names: Sequence[str]) -> Program:
    """Return the program with its outputs named after the graph's outputs: "y"; "y.0", "y.1"; "y.keys", "y.values".

    `tree` has an `OutputTree` for each name in `names`. Program outputs that are in no tree keep their names.
    """
    outputs = list(program.outputs)

    def visit(item: OutputTree, name: str) -> None:
        if isinstance(item, int):
            outputs[item] = outputs[item]._replace(name=name)
        elif isinstance(item, list):
            for index, element in enumerate(item):
                visit(element, "%s.%d" % (name, index))
        elif isinstance(item, MapItems):
            visit(item.keys, name + ".keys")
            visit(item.values, name + ".values")

    for name, item in zip(names, tree):
        visit(item, name)
    return program._replace(outputs=tuple(outputs))


def assemble_output(tree: OutputTree, arrays: Sequence[np.ndarray], dtypes: Sequence[DType]) -> CheckedValue:
    """Return an output of the model as a checked value, assembled by its `OutputTree`.

    `arrays`, `dtypes`: the outputs of the program and their dtypes. Known tensors and EMPTY_OPTIONAL are in the tree. A
    known tensor is copied, because the next run needs it again.
    """
    if isinstance(tree, list):
        return [assemble_output(item, arrays, dtypes) for item in tree]
    if isinstance(tree, MapItems):
        return tree.map(lambda item: assemble_output(item, arrays, dtypes))
    if isinstance(tree, tuple):
        return tree[0].copy(), tree[1]
    return (arrays[tree], dtypes[tree]) if isinstance(tree, int) else tree


def _check_result(port: Port, array: np.ndarray) -> None:
    """Raise ShimError if an output array of the shim has another dtype, rank or static size than its port."""
    fits = array.dtype == port.dtype.numpy and array.ndim == len(port.shape)
    if not fits or any(size is not None and size != actual for size, actual in zip(port.sizes, array.shape)):
        raise ShimError(
            "its result for '%s' is %s%s, not %s%s"
            % (port.name, array.dtype, list(array.shape), port.dtype, list(port.shape)),
            hint="this is a defect of the shim: please report it with the model",
        )


class CompiledPlan:
    """A plan that runs a program which the shim has compiled.

    - traced: the program, and how the outputs of the model are assembled.
    - compiled: the object that runs the program; None if all outputs are known.
    - fixed: the `Specialisation` of the program. The attribute `fixed` has the names of the inputs that are constants.
    """

    fallbacks: Sequence[str] = ()
    reasons: Mapping[str, OnnxCompatError] = {}
    fallback_runtimes: Mapping[str, str] = {}

    def __init__(self, traced: TracedModel, compiled: Optional[Compiled], fixed: Specialisation) -> None:
        self.traced = traced
        self.compiled = compiled
        self.fixed = frozenset(fixed.values)
        self._dtypes = [port.dtype for port in traced.program.outputs]

    @property
    def native(self) -> Any:
        return self.compiled.native if self.compiled is not None else None

    @property
    def traces(self) -> int:
        return self.compiled.traces if self.compiled is not None else 0

    def run(self, feed: Feed) -> List[Any]:
        """Run the compiled program. Return the outputs of the model as a list of checked values.

        `feed` is in the order of the graph's inputs. Raises the errors of the shim. Raises ShimError for an array of
        another dtype, rank or static size than the program declares.
        """
        arrays = [array for name, value in feed.items() if name not in self.fixed for array in flatten_value(value)]
        results = self.compiled.run(arrays) if self.compiled is not None else []
        for port, array in zip(self.traced.program.outputs, results):
            _check_result(port, array)
        return [assemble_output(item, results, self._dtypes) for item in self.traced.tree]


class ImmediatePlan:
    """A plan that executes a model operator by operator, because no compiled program can express it.

    `executor` is a function that returns a new emitter, which executes operators. It is called for each run, because an
    emitter holds the node that it executes.
    """

    fallbacks: Sequence[str] = ()
    reasons: Mapping[str, OnnxCompatError] = {}
    fallback_runtimes: Mapping[str, str] = {}
    native = None
    traces = 0

    def __init__(self, model: Model, executor: Callable[[], Optional[Emitter]]) -> None:
        self.model = model
        self.executor = executor

    def run(self, feed: Feed) -> List[CheckedValue]:
        """Execute each operator while tracing, with a new emitter. Return the outputs as a list of checked values.

        `feed` is in the order of the graph's inputs. The OnnxCompatError of the first node that fails is raised.
        """
        graph = self.model.graph
        structures = {name: structure_of(value) for name, value in feed.items()}
        executor = self.executor()
        assert executor is not None
        trace = start_trace(executor, immediate=True)
        with trace.active(), executor.device_context():
            tensors = []
            for port, array in zip(
                program_inputs(graph, structures, Specialisation()),
                (array for value in feed.values() for array in flatten_value(value)),
            ):
                ref = Ref(Spec(port.dtype, tuple(array.shape)))
                ref.handle = executor.constant(array, port.dtype)
                tensors.append(Tensor(port.dtype, array.shape, ref=ref))
            values = Interpreter().run(graph, _traced_inputs(graph, structures, Specialisation(), tensors))
            return [self._fetch(trace, value) for value in values]

    def _fetch(self, trace: Trace, value: TracedValue) -> CheckedValue:
        """Convert a traced output to a checked value, with its tensors as numpy arrays. None gives EMPTY_OPTIONAL."""
        if value is EMPTY_OPTIONAL or value is None:
            return EMPTY_OPTIONAL
        if isinstance(value, SequenceValue):
            return [self._fetch(trace, item) for item in value.items]
        if isinstance(value, MapValue):
            return MapItems(*value).map(lambda tensor: self._fetch(trace, tensor))
        array = np.asarray(trace.demand(value, "an output"))
        return array.copy() if value.known else array, value.dtype

"""Trace the main graph of a training: with its parameters as inputs, and with its open sizes named."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from onnx_compat.errors import NeedsKnownError, UnsupportedError
from onnx_compat.ir import Extents, Ref, input_dependencies
from onnx_compat.ir.dims import Dim as DimSize
from onnx_compat.ir.dims import Extent, is_equal, is_static
from onnx_compat.model import Graph, GraphNode, TensorType, ValueInfo
from onnx_compat.model.types import Dim
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.passes import CORE, run_program_passes
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor

__all__ = ["ForwardGraph", "SizeNames", "needed_graph", "record_step", "tensor_ports"]


def needed_graph(graph: Graph, outputs: Sequence[str], lifted: Iterable[str]) -> Graph:
    """Return the part of a graph that computes `outputs`, with the initializers `lifted` as inputs.

    The inputs are the inputs without a default, then `lifted`.
    """
    lifted = [name for name in lifted if name in graph.initializers]
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    needed: Dict[GraphNode, None] = {}
    pending = list(outputs)
    while pending:
        node = producers.get(pending.pop())
        if node is not None and node not in needed:
            needed[node] = None
            pending.extend((*node.inputs, *node.captures()))
    nodes = [node for node in graph.nodes if node in needed]
    inputs = [*graph.required, *(ValueInfo(name, graph.initializers[name].type) for name in lifted)]
    initializers = {name: tensor for name, tensor in graph.initializers.items() if name not in lifted}
    return Graph(graph.name, inputs, [ValueInfo(name, None) for name in outputs], nodes, initializers)


def tensor_ports(inputs: Sequence[ValueInfo]) -> List[Port]:
    """Return a port for each input. Equal size names are equal sizes; a size without a name gets a name of its own.

    Raises UnsupportedError for an input that is no tensor, or whose element type or rank is not declared.
    """
    ports: List[Port] = []
    for info in inputs:
        kind = info.type
        if not isinstance(kind, TensorType) or kind.dtype is None or kind.shape is None:
            raise UnsupportedError(
                "the input '%s' has the type %s; a training needs the element type and the rank" % (info.name, kind),
                hint="declare the type of the input in the model",
            )
        shape = ["%s/%d" % (info.name, axis) if size is None else size for axis, size in enumerate(kind.shape)]
        ports.append(Port(info.name, kind.dtype, tuple(shape)))
    return ports


class SizeNames:
    """Names for the symbolic sizes of a trace: those of the input ports, and new ones for computed sizes."""

    def __init__(self) -> None:
        self._names: List[Tuple[Extent, str]] = []

    def learn(self, ports: Sequence[Port], tensors: Sequence[Tensor]) -> None:
        """Take the names from ports. `tensors`: the traced value of each port."""
        for port, tensor in zip(ports, tensors):
            for name, extent in zip(port.shape, tensor.shape):
                if isinstance(name, str) and self._find(extent) is None:
                    self._names.append((extent, name))

    def _find(self, extent: Extent) -> Optional[str]:
        return next((name for known, name in self._names if is_equal(known, extent)), None)

    def shape(self, tensor: Tensor) -> Tuple[Dim, ...]:
        """Return the shape of a tensor, with a name for each symbolic size."""
        sizes: List[Dim] = []
        for extent in tensor.shape:
            name = None if is_static(extent) else self._find(extent)
            if name is None and not is_static(extent):
                name = "size/%d" % len(self._names)
                self._names.append((extent, name))
            sizes.append(name if isinstance(extent, DimSize) else int(extent))
        return tuple(sizes)


class ForwardGraph:
    """A graph whose parameters are inputs, to be traced for a target.

    - graph: the result of `needed_graph`. ports: a port for each input.
    """

    def __init__(self, graph: Graph, offer: OperatorOffer) -> None:
        self.graph = graph
        self.ports = tensor_ports(graph.inputs)
        self._offer = offer

    def record(
        self,
        function: Callable[[Dict[str, Tensor], List[Tensor], List[Tensor]], Sequence[Tensor]],
        extra: Sequence[Port] = (),
        watch: Optional[Callable[[str, Any], None]] = None,
    ) -> Program:
        """Record the graph and a function of its values. Return the program, after the passes of the core.

        - function: (input name -> tensor, outputs of the graph, tensors of `extra`) -> results of the program.
        - extra: further inputs of the program. watch: as for `Interpreter`.

        Raises NeedsKnownError with the names of the inputs in its field `values`. Raises UnsupportedError for an output
        that is no tensor, and the errors of the trace.
        """
        refs: Dict[Ref, str] = {}
        count = len(self.ports)

        def body(*tensors: Tensor) -> Sequence[Tensor]:
            named = {port.name: tensor for port, tensor in zip(self.ports, tensors)}
            refs.update((tensor.ref, name) for name, tensor in named.items() if tensor.ref is not None)
            outputs = Interpreter(watch=watch).run(self.graph, tensors[:count])
            for port, value in zip(self.graph.outputs, outputs):
                if not isinstance(value, Tensor):
                    raise UnsupportedError("the output '%s' is no tensor, and has no loss" % port.name)
            return function(named, outputs, list(tensors[count:]))

        try:
            return record_step(body, [*self.ports, *extra], self._offer)
        except NeedsKnownError as error:
            error.values = _inputs_behind(error, refs)
            raise


def record_step(function: Callable[..., Sequence[Tensor]], ports: Sequence[Port], offer: OperatorOffer) -> Program:
    """Return the program of a function of tensors, for an ONNX target and after the passes of the core."""
    emitter = OnnxEmitter(offer)
    program = record_program(function, ports, emitter)
    return program._replace(region=run_program_passes(CORE, program.region, emitter))


def _inputs_behind(error: NeedsKnownError, refs: Dict[Ref, str]) -> Set[str]:
    """Return the names of the inputs whose elements or sizes the value depends on that must be known."""
    tensor = error.value
    if tensor is None:
        return set()
    value = tensor.ref if tensor.value is None else Extents(tuple(tensor.value.reshape(-1)))
    by_value, by_size = input_dependencies(value)
    return {refs[ref] for ref in by_value | by_size if ref in refs}

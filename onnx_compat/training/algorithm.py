"""Build the algorithm of a training: its nodes, states, results and bindings."""

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import DType, from_public
from onnx_compat.model.names import Names
from onnx_compat.model.protos import subgraphs_of, walk
from onnx_compat.model.write import node_proto, tensor_proto
from onnx_compat.onnx_shim.emission import emit_fragment
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.recognition import recognize_operators
from onnx_compat.shim.interface import Port, Program
from onnx_compat.training.tensors import stored_tensor

if TYPE_CHECKING:
    import onnx

__all__ = ["AlgorithmBuilder"]

#: The bytes from which on a constant of the algorithm is compared with the initializers of the main graph.
_SHARED_BYTES = 256


class AlgorithmBuilder:
    """Collects the algorithm of an entry.

    - main: the main graph, whose initializers the algorithm may read.
    - offer: the operators that programs are written with. names: the names in use.
    """

    def __init__(self, main: "onnx.GraphProto", offer: OperatorOffer, names: Names) -> None:
        import onnx

        self.offer = offer
        self.names = names
        self.graph = onnx.GraphProto(name="training")
        self.states: List[str] = []
        self.updates: Dict[str, str] = {}
        self.opsets: Dict[str, int] = {"": offer.opset}
        self._main = main
        self._stored: Dict[bytes, str] = {}

    def add_program(self, program: Program, inputs: Sequence[str], outputs: Sequence[str], prefix: str) -> None:
        """Add the nodes of a program.

        - inputs, outputs: the names of the values that the nodes read and compute.
        - prefix: the beginning of all other names.

        Raises UnsupportedError for what the operator set cannot express.
        """
        program = program._replace(region=recognize_operators(program.region, self.offer))
        fragment = emit_fragment(program, self.offer, inputs, outputs, prefix, self.names)
        nodes = [node_proto(node) for node in fragment.nodes]
        shared: Dict[str, str] = {}
        for name, initializer in fragment.initializers.items():
            tensor = tensor_proto(initializer.array(), initializer.dtype, name)
            earlier = self._find_equal(tensor)
            if earlier is None:
                self.graph.initializer.append(tensor)
            else:
                shared[name] = earlier
        for node in nodes:
            _rename_inputs(node, shared)
        self.add_nodes(nodes, fragment.opsets)

    def _find_equal(self, tensor: "onnx.TensorProto") -> Optional[str]:
        """Return the initializer of the main graph that equals a large constant; None without one."""
        if len(tensor.raw_data) < _SHARED_BYTES:
            return None
        if not self._stored:
            self._stored = {_content(stored): stored.name for stored in self._main.initializer}
        return self._stored.get(_content(tensor))

    def add_nodes(self, nodes: "Iterable[onnx.NodeProto]", opsets: Dict[str, int]) -> None:
        """Add nodes. Raises UnsupportedError if they need another version of a domain than earlier nodes."""
        for domain, version in opsets.items():
            if self.opsets.setdefault(domain, version) != version:
                raise UnsupportedError(
                    "the model has functions with version %d of the domain '%s', and uses version %d"
                    % (version, domain or "ai.onnx", self.opsets[domain]),
                    hint="give form='expanded', or retarget the model with inline_functions=True",
                )
        self.graph.node.extend(nodes)

    def add_state(self, name: str, array: np.ndarray) -> None:
        """Add an initializer that is a state."""
        _, dtype = from_public(array)
        self.states.append(name)
        self.graph.initializer.append(stored_tensor(name, array, dtype.onnx))

    def add_input(self, port: Port, declared: Iterable[str]) -> None:
        """Add an input. Of the size names of the port, only those in `declared` are written."""
        kept = set(declared)
        shape = tuple(size if isinstance(size, int) or size in kept else None for size in port.shape)
        self.graph.input.append(_value(port.name, port.dtype, shape))

    def add_output(self, name: str, port: Port) -> None:
        """Add an output with the type of a port of a program."""
        self.graph.output.append(_value(name, port.dtype, port.sizes))

    def bind(self, state: str, output: str, port: Port) -> None:
        """Add an output with the type of `port`, and assign it to a state after each step."""
        self.add_output(output, port)
        self.updates[state] = output


def _content(tensor: "onnx.TensorProto") -> bytes:
    """Return the bytes of a tensor without its name. Equal bytes are equal tensors."""
    copy = type(tensor)(data_type=tensor.data_type, dims=tensor.dims, raw_data=tensor.raw_data)
    return bytes(copy.SerializeToString())


def _rename_inputs(node: "onnx.NodeProto", renamed: Dict[str, str]) -> None:
    """Give the values that a node and its subgraphs read other names, in place: `renamed` maps old to new names."""
    for inner in walk([node]) if renamed else ():
        inner.input[:] = [renamed.get(name, name) for name in inner.input]
        for graph in subgraphs_of(inner):
            for port in graph.output:
                port.name = renamed.get(port.name, port.name)


def _value(name: str, dtype: DType, shape: Sequence[Any]) -> "onnx.ValueInfoProto":
    import onnx

    return onnx.helper.make_tensor_value_info(name, dtype.onnx, list(shape))

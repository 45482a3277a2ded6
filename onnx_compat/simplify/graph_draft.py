"""Drafts: a GraphProto that rewrites edit through a few functions, with an index of producers and readers.

A rewrite never sets a field of a graph itself. `write` puts the edited nodes, initializers and declarations back into
the GraphProto. A node, an initializer and a declaration that no rewrite changed stay identical to the byte.
"""

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set

import numpy as np

from onnx_compat.ir import Spec
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.names import Names
from onnx_compat.model.protos import subgraphs_of
from onnx_compat.model.storage import stored_size
from onnx_compat.model.write import tensor_proto
from onnx_compat.simplify.knowledge import Knowledge
from onnx_compat.simplify.node import DraftNode, names_of
from onnx_compat.simplify.node_list import NodeList
from onnx_compat.simplify.size_budget import SizeBudget, digest_of_elements, stored_bytes
from onnx_compat.tracing.values import Tensor

__all__ = ["GraphDraft"]

#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any


class GraphDraft:
    """A graph that is being simplified.

    - graph: the GraphProto, which `write` changes.
    - model: the ModelProto of the graph, with its opsets and functions. `opset`: the version of the domain ai.onnx.
    - knowledge: what is known of the values.
    - nodes: the nodes in topological order. `remove` changes the list.
    - variable: names of initializers whose elements may change.
    - has_stored_inputs: whether every initializer is an input too, as below IR version 4.
    - pinned: names of values whose producers and initializers stay, because something outside of the nodes reads them.
    - budget: counts the bytes of the whole model. Edits report to it.
    - outer: the draft of the graph around a subgraph; None for the graph of the model.
    """

    def __init__(
        self,
        graph: Proto,
        model: Proto,
        knowledge: Knowledge,
        budget: SizeBudget,
        pinned: Iterable[str] = (),
        variable: Iterable[str] = (),
        has_stored_inputs: bool = False,
        outer: "Optional[GraphDraft]" = None,
    ) -> None:
        self.graph = graph
        self.model = model
        self.opset = max([entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")], default=0)
        self.knowledge = knowledge
        self.budget = budget
        self.outer = outer
        self.variable = frozenset(variable)
        self.has_stored_inputs = has_stored_inputs
        self.names: Names = Names(names_of(graph)) if outer is None else outer.names
        self.inputs = {port.name for port in graph.input}
        self.outputs = {port.name for port in graph.output}
        self.pinned = set(pinned)
        for annotation in graph.quantization_annotation:
            self.pinned.add(annotation.tensor_name)
            self.pinned.update(entry.value for entry in annotation.quant_parameter_tensor_names)
        self.initializers: Dict[str, Proto] = {tensor.name: tensor for tensor in graph.initializer}
        self.sparse = {tensor.values.name for tensor in graph.sparse_initializer}
        self._added: Dict[str, Proto] = {}
        self._digests: Dict[str, bytes] = {}
        self.nodes = NodeList(map(DraftNode, graph.node))
        self._producers: Dict[str, DraftNode] = {}
        self._readers: Dict[str, Dict[DraftNode, None]] = {}
        self._inner_names: Set[str] = set()
        self._is_changed = False
        for node in self.nodes:
            self._index(node)
        self.sort()

    # -- queries ---------------------------------------------------------------------------------------------------
    def producer(self, name: str) -> Optional[DraftNode]:
        """Return the node that computes a value; None for an input, an initializer and a value of an outer graph."""
        return self._producers.get(name)

    def readers(self, name: str) -> List[DraftNode]:
        """Return the nodes that read a value, also in their subgraphs. Outputs of the graph do not count."""
        return list(self._readers.get(name, ()))

    def is_read(self, name: str) -> bool:
        """Whether a node, an output of the graph or something outside of the nodes reads a value."""
        return bool(self._readers.get(name)) or name in self.outputs or name in self.pinned

    def only_reader(self, name: str) -> Optional[DraftNode]:
        """Return the node that alone reads a value, as one of its inputs, once.

        None: there is no such node, or the value is an output of the graph or in `pinned`.
        """
        readers = self._readers.get(name, {})
        if len(readers) != 1 or name in self.outputs or name in self.pinned:
            return None
        (reader,) = readers
        return reader if reader.inputs.count(name) == 1 and name not in reader.captures else None

    def constant(self, name: str) -> Optional[np.ndarray]:
        """Return the elements of an initializer of this graph or an outer one as a carrier array.

        None: the value is no initializer, or the elements of the initializer may change.
        """
        if name in self.variable:
            return None
        if name in self.initializers or name in self.sparse:
            return self.knowledge.array(name)
        if name in self.inputs or name in self._producers or self.outer is None:
            return None
        return self.outer.constant(name)

    def spec(self, name: str) -> Optional[Spec]:
        """Return the dtype and shape of a value; None if they are not known. A size may be symbolic."""
        return self.knowledge.spec(name)

    def identity(self, name: str) -> Any:
        """Return a key that is equal for two values with equal elements at every run.

        None: the elements of the value are known, or nothing is known of it.
        """
        return self.knowledge.identity(name)

    def digest(self, name: str) -> bytes:
        """Return a digest of the elements of an initializer of this graph. It is computed once."""
        if name not in self._digests:
            self._digests[name] = digest_of_elements(self.initializers[name])
        return self._digests[name]

    # -- edits -----------------------------------------------------------------------------------------------------
    def add_constant(self, array: np.ndarray, dtype: DType, name: str, is_new: bool = True) -> str:
        """Add an initializer and return its name: `name` itself, or with `is_new` an unused name like it."""
        name = self.names.fresh(name) if is_new else name
        self.add_tensor(tensor_proto(array, dtype, name))
        self.knowledge.note(name, array, dtype)
        return name

    def add_tensor(self, tensor: Proto) -> None:
        """Add a TensorProto as an initializer. Its name is not in use."""
        self.initializers[tensor.name] = self._added[tensor.name] = tensor
        self.budget.change(stored_bytes(tensor))
        self._is_changed = True

    def replace_node(
        self, node: DraftNode, operator: str, inputs: Sequence[str], name: Optional[str] = None, **attributes: Any
    ) -> DraftNode:
        """Replace a node by a node of the domain ai.onnx with the same outputs, and return it. `name`: its name.

        By default, it has the name of `node`. The documentation and the metadata of `node` stay.
        """
        import onnx

        proto = onnx.helper.make_node(operator, list(inputs), node.outputs, name=name, **attributes)
        proto.name = node.proto.name if name is None else name
        proto.doc_string = node.proto.doc_string
        if hasattr(proto, "metadata_props"):  # newer than onnx 1.15
            proto.metadata_props.extend(node.proto.metadata_props)
        return self.remove(node, [proto])[0]

    def remove(self, node: DraftNode, replacements: Sequence[Proto] = ()) -> List[DraftNode]:
        """Remove a node, and insert the NodeProtos `replacements` in its place. Return the inserted nodes.

        Readers of its outputs keep the names: a replacement or the caller defines them.
        """
        inserted = [DraftNode(proto) for proto in replacements]
        self.nodes.replace(node, inserted)
        for name in node.reads:
            self._readers.get(name, {}).pop(node, None)
        for name in node.outputs:
            if self._producers.get(name) is node:
                del self._producers[name]
        for added in inserted:
            self._index(added)
        self.budget.change(sum(proto.ByteSize() for proto in replacements) - node.proto.ByteSize())
        self._is_changed = True
        return inserted

    def sort(self) -> None:
        """Sort the nodes topologically. Nodes that are sorted already keep their order.

        Raises InvalidModelError if they form a cycle.
        """
        self._is_changed = self.nodes.sort(self.producer) or self._is_changed

    def set_inputs(self, node: DraftNode, inputs: Sequence[str]) -> None:
        """Replace the inputs of a node. Trailing omitted inputs are dropped."""
        kept = list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        for name in node.reads:
            self._readers[name].pop(node)
        del node.proto.input[:]
        node.proto.input.extend(kept)
        for name in node.reads:
            self._readers.setdefault(name, {})[node] = None
        self._is_changed = True

    def set_attribute(self, node: DraftNode, name: str, value: Any) -> None:
        """Set an attribute of a node. A value of None removes it. The attribute holds no graph before or after."""
        node.set_attribute(name, value)
        self._is_changed = True

    def declare(self, infos: Sequence[Proto], tensors: Mapping[str, Tensor]) -> None:
        """Add the types of new values: `infos`, their ValueInfoProtos, and `tensors`, value name -> traced tensor."""
        self.graph.value_info.extend(infos)
        self.knowledge.tensors.update(tensors)
        self._is_changed = True

    def set_outputs(self, node: DraftNode, outputs: Sequence[str]) -> None:
        """Replace the outputs of a node, which becomes their producer. Their earlier producers were removed before."""
        for name in node.outputs:
            if self._producers.get(name) is node:
                del self._producers[name]
        del node.proto.output[:]
        node.proto.output.extend(outputs)
        self._producers.update((name, node) for name in outputs if name)
        self._is_changed = True

    def replace_reads(self, old: str, new: str) -> bool:
        """Make every node that reads `old` read `new`. Return False, and change nothing, if a subgraph forbids it.

        A subgraph forbids it if it has a value of its own that is named `new`. Outputs of the graph stay.
        """
        readers = self.readers(old)
        if new in self._inner_names and any(old in reader.captures for reader in readers):
            return False
        for reader in readers:
            self._readers[old].pop(reader)
            reader.rename_input(old, new)
            self._readers.setdefault(new, {})[reader] = None
        self._is_changed = self._is_changed or bool(readers)
        return True

    def bypass(self, node: DraftNode, source: str) -> bool:
        """Remove a node whose only output that is read equals the value `source`. Return whether it was removed.

        Readers of the output read `source` instead. If the output is an output of the graph, `source` takes its name.
        Return False, and change nothing, in these cases:

        - The node has not exactly one output that is read, or the output is in `pinned`.
        - A subgraph may have a value of its own with the new name.
        - The output is an output of the graph, and `source` is in `pinned`, or is an input, an initializer, an outer
          value or another output.
        """
        read = [name for name in node.outputs if name and self.is_read(name)]
        if len(read) != 1 or read[0] in self.pinned or (source in self.pinned and read[0] in self.outputs):
            return False
        (name,) = read
        if name not in self.outputs:
            if not self.replace_reads(name, source):
                return False
            self.remove(node)
            return True
        producer = self._producers.get(source)
        if producer is None or source in self.outputs or name in self._inner_names:
            return False
        self.remove(node)
        self.replace_reads(source, name)
        producer.rename_output(source, name)
        del self._producers[source]
        self._producers[name] = producer
        return True

    def absorb(self, node: DraftNode, reader: DraftNode) -> None:
        """Remove `reader`, the only reader of a node, and give the node the name of the first output of `reader`.

        The caller has edited the node, so that it computes the result of `reader`.
        """
        self.remove(reader)
        self.set_outputs(node, reader.outputs[:1])

    def replace_constant(
        self, reader: DraftNode, name: str, array: np.ndarray, dtype: DType, preferred_name: str
    ) -> str:
        """Add an initializer with new elements, and return its name. The caller sets it as an input of `reader`.

        If only `reader` reads the initializer `name`, and no caller of the model can set it, the new initializer
        replaces it under its name. Otherwise the new one gets an unused name like `name`. If `name` is "", its name is
        like `preferred_name`.
        """
        is_free = name in self.initializers and self.only_reader(name) is reader and name not in self.variable
        if not is_free or (name in self.inputs and not self.has_stored_inputs):
            return self.add_constant(array, dtype, name or preferred_name)
        self.remove_initializer(name)
        return self.add_constant(array, dtype, name, is_new=False)

    def remove_initializer(self, name: str) -> None:
        """Remove an initializer. Below IR version 4, the input of its name goes too."""
        tensor = self.initializers.pop(name)
        self._added.pop(name, None)
        self._digests.pop(name, None)
        self.budget.change(-stored_bytes(tensor))
        self._is_changed = True

    def find_captures(self, node: DraftNode) -> bool:
        """Update the index after subgraphs of a node were simplified. Return whether they read fewer outer values."""
        before = node.reads
        node.find_captures()
        unread = set(before) - set(node.reads)
        for name in unread:
            self._readers[name].pop(node)
        self._is_changed = self._is_changed or bool(unread)
        return bool(unread)

    def affords(self, array: np.ndarray, dtype: DType, replaced: str) -> bool:
        """Whether a new constant is within the size budget, in place of the initializer `replaced`.

        The bytes of `replaced` are subtracted if a single node reads it. `replaced` may be "", for no initializer.
        """
        freed = 0
        if replaced in self.initializers and self.only_reader(replaced) is not None:
            freed = stored_bytes(self.initializers[replaced])
        return self.budget.allows(stored_size(dtype, array.size) - freed)

    # -- the graph -------------------------------------------------------------------------------------------------
    def _index(self, node: DraftNode) -> None:
        for name in node.reads:
            self._readers.setdefault(name, {})[node] = None
        self._producers.update((name, node) for name in node.outputs if name)
        for graph in subgraphs_of(node.proto):
            self._inner_names |= names_of(graph)

    def write(self) -> None:
        """Put the nodes, initializers and declarations back into the GraphProto. Without a change, do nothing."""
        if not self._is_changed:
            return
        import onnx

        kept = onnx.GraphProto()
        kept.node.extend(node.proto for node in self.nodes)
        del self.graph.node[:]
        self.graph.node.extend(kept.node)
        added = [tensor for name, tensor in self._added.items() if name in self.initializers]
        gone = {tensor.name for tensor in self.graph.initializer} - self.initializers.keys()
        kept_names = self.initializers.keys() - self._added.keys()
        _keep(self.graph.initializer, lambda tensor: tensor.name in kept_names)
        _keep(self.graph.sparse_initializer, lambda tensor: tensor.values.name in self.sparse)
        self.graph.initializer.extend(added)
        if self.has_stored_inputs:
            changed = gone | {tensor.name for tensor in added}
            _keep(self.graph.input, lambda port: port.name not in changed)
            self.graph.input.extend(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in added
            )
        stored = self._added.keys() | gone
        defined = self._producers.keys() | self.inputs | self.initializers.keys() | self.sparse
        _keep(self.graph.value_info, lambda info: info.name in defined and info.name not in stored)


def _keep(messages: Any, is_kept: Callable[[Proto], bool]) -> None:
    """Delete every message of the repeated field `messages` for which `is_kept` is False, in place."""
    for index in reversed(range(len(messages))):
        if not is_kept(messages[index]):
            del messages[index]

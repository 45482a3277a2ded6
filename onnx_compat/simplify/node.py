"""Nodes of a draft: a NodeProto with the names that its subgraphs read, and helpers that rename values in subgraphs."""

from typing import Any, Dict, List, Set

from onnx_compat.model.protos import subgraphs_of

__all__ = ["DraftNode", "defined_names", "free_names", "names_of", "rename_inputs", "rename_output"]

#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any


def defined_names(graph: Proto) -> Set[str]:
    """Return the names of the inputs, initializers and node outputs of a GraphProto. Subgraphs do not count."""
    names = {port.name for port in graph.input} | {tensor.name for tensor in graph.initializer}
    names.update(tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        names.update(node.output)
    return names


def free_names(graph: Proto) -> Dict[str, None]:
    """Return the names of outer values that a GraphProto or a subgraph of its nodes reads, in order of first use."""
    defined = defined_names(graph)
    read: Dict[str, None] = {}
    for node in graph.node:
        read.update(dict.fromkeys(node.input))
        for subgraph in subgraphs_of(node):
            read.update(free_names(subgraph))
    read.update(dict.fromkeys(port.name for port in graph.output))
    return {name: None for name in read if name and name not in defined}


def names_of(graph: Proto) -> Set[str]:
    """Return every name of a value or node in a GraphProto and its subgraphs."""
    names = defined_names(graph) | {port.name for port in graph.output} | {info.name for info in graph.value_info}
    for node in graph.node:
        names.add(node.name)
        names.update(node.input)
        for subgraph in subgraphs_of(node):
            names |= names_of(subgraph)
    return names


def _rename_free(graph: Proto, old: str, new: str) -> None:
    """Rename the reads of the outer value `old` in a subgraph and in the subgraphs of its nodes, in place.

    Nothing is renamed in a subgraph that defines `old` itself.
    """
    if old in defined_names(graph):
        return
    for node in graph.node:
        rename_inputs(node, old, new)
    for port in graph.output:
        if port.name == old:
            port.name = new


def rename_inputs(node: Proto, old: str, new: str) -> None:
    """Make the NodeProto `node` and its subgraphs read the value `new` in place of `old`, in place."""
    for index, name in enumerate(node.input):
        if name == old:
            node.input[index] = new
    for subgraph in subgraphs_of(node):
        _rename_free(subgraph, old, new)
    _rename_sharded(node, old, new)


def rename_output(node: Proto, old: str, new: str) -> None:
    """Rename the output `old` of the NodeProto `node`, in place."""
    for index, name in enumerate(node.output):
        if name == old:
            node.output[index] = new
    _rename_sharded(node, old, new)


def _rename_sharded(node: Proto, old: str, new: str) -> None:
    """Rename a value in the device configurations of a node. The field is newer than onnx 1.17."""
    for configuration in getattr(node, "device_configurations", ()):
        for sharding in configuration.sharding_spec:
            if sharding.tensor_name == old:
                sharding.tensor_name = new


class DraftNode:
    """A node of a `GraphDraft`. Two nodes are equal if they are the same object.

    proto: the NodeProto. A node that no rewrite changes stays identical to the byte.
    captures: the names of outer values that its subgraphs read.
    """

    __slots__ = ("captures", "proto")

    def __init__(self, proto: Proto) -> None:
        self.proto = proto
        self.captures: List[str] = []
        self.find_captures()

    def find_captures(self) -> None:
        """Update `captures` after a subgraph was changed."""
        names: Dict[str, None] = {}
        for graph in subgraphs_of(self.proto):
            names.update(free_names(graph))
        self.captures = list(names)

    @property
    def operator(self) -> str:
        """The name of the operator; "domain::name" outside of the domain ai.onnx."""
        domain = self.proto.domain
        return str(self.proto.op_type) if domain in ("", "ai.onnx") else "%s::%s" % (domain, self.proto.op_type)

    @property
    def inputs(self) -> List[str]:
        """A copy of the list of input names, with "" for an omitted input."""
        return list(self.proto.input)

    @property
    def outputs(self) -> List[str]:
        """A copy of the list of output names, with "" for an omitted output."""
        return list(self.proto.output)

    @property
    def reads(self) -> List[str]:
        """The names that the node and its subgraphs read, without repetition."""
        return list(dict.fromkeys([name for name in self.proto.input if name] + self.captures))

    def input(self, index: int) -> str:
        """Return the name of an input; "" for an omitted input."""
        return str(self.proto.input[index]) if index < len(self.proto.input) else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute as onnx.helper decodes it; text as bytes. Without it, return `default`."""
        import onnx

        for attribute in self.proto.attribute:
            if attribute.name == name:
                return onnx.helper.get_attribute_value(attribute)
        return default

    def set_attribute(self, name: str, value: Any) -> None:
        """Set an attribute. A value of None removes it."""
        import onnx

        for index, attribute in enumerate(self.proto.attribute):
            if attribute.name == name:
                del self.proto.attribute[index]
                break
        if value is not None:
            self.proto.attribute.append(onnx.helper.make_attribute(name, value))

    def rename_input(self, old: str, new: str) -> None:
        """Make the node and its subgraphs read `new` in place of `old`."""
        rename_inputs(self.proto, old, new)
        self.captures = [new if name == old else name for name in self.captures]

    def rename_output(self, old: str, new: str) -> None:
        """Rename an output."""
        rename_output(self.proto, old, new)

    def __repr__(self) -> str:
        return "<%s %s(%s) -> %s>" % (self.proto.name, self.operator, ", ".join(self.inputs), ", ".join(self.outputs))

"""Inline functions of an onnx.ModelProto: replace each call by a copy of the function's body, in place.

`onnx_compat.model.load` has accepted the model before: there is no recursion, and the copies fit the limit `inlined`.
"""

from typing import TYPE_CHECKING, Any, Collection, Dict, List, Mapping, Sequence, Tuple

from onnx_compat.model.names import Names
from onnx_compat.model.protos import subgraphs_of
from onnx_compat.model.versions import normalise
from onnx_compat.retarget.protos import all_graphs

if TYPE_CHECKING:
    import onnx

__all__ = ["FunctionKey", "call_key", "function_key", "inline_functions"]

#: The identity of a function: domain, name, overload.
FunctionKey = Tuple[str, str, str]
#: The repeated field `node` of a GraphProto or FunctionProto.
NodeList = Any
#: An onnx.GraphProto or onnx.FunctionProto.
ValueInfoHolder = Any


def function_key(function: "onnx.FunctionProto") -> FunctionKey:
    """Return (domain, name, overload) of a function. Older releases of onnx have no overloads."""
    return normalise(function.domain), function.name, getattr(function, "overload", "")


def call_key(node: "onnx.NodeProto") -> FunctionKey:
    """Return (domain, name, overload) of the operator that a node calls, which may be a function."""
    return normalise(node.domain), node.op_type, getattr(node, "overload", "")


def inline_functions(model: "onnx.ModelProto", keys: Collection[FunctionKey], names: Names) -> None:
    """Replace every call of the functions in `keys` by a copy of the body, in place, and remove these functions.

    Calls in subgraphs and in the bodies of other functions are replaced too. The bodies must already be written for the
    opset versions of the model. `names` has the names in use, and gives the names of new values and nodes.
    """
    functions = {function_key(function): function for function in model.functions if function_key(function) in keys}
    inliner = _Inliner(functions, names)
    for graph in all_graphs(model):
        inliner.expand(graph.node, graph)
    for function in model.functions:
        if function_key(function) not in keys:
            inliner.expand(function.node, function)
    kept = [function for function in model.functions if function_key(function) not in keys]
    copies = [type(function).FromString(function.SerializeToString()) for function in kept]
    del model.functions[:]
    model.functions.extend(copies)


class _Inliner:
    """Replace calls of functions by copies of their bodies. `functions`: key -> function to inline."""

    def __init__(self, functions: "Mapping[FunctionKey, onnx.FunctionProto]", names: Names) -> None:
        self.functions = functions
        self.names = names

    def expand(self, nodes: NodeList, holder: ValueInfoHolder) -> None:
        """Replace the calls in a list of nodes, in their subgraphs and in the copies of bodies, in place.

        `holder`: the graph or function that has the nodes. It gets the declared types of the new values, unless it is a
        FunctionProto of an older onnx, which has no field for them.
        """
        expanded: List[onnx.NodeProto] = []
        is_changed = False
        for node in nodes:
            function = self.functions.get(call_key(node))
            if function is None:
                for graph in subgraphs_of(node):
                    self.expand(graph.node, graph)
                expanded.append(node)
                continue
            is_changed = True
            body = type(function)()
            body.node.extend(self.copy(node, function, holder))
            self.expand(body.node, holder)
            expanded.extend(body.node)
        if is_changed:
            del nodes[:]
            nodes.extend(expanded)

    def copy(
        self, call: "onnx.NodeProto", function: "onnx.FunctionProto", holder: ValueInfoHolder
    ) -> "List[onnx.NodeProto]":
        """Return a copy of the nodes of a function's body for one call. Names of inner values become "call/name".

        `holder`: the graph or function that gets the declared types of the inner values. An output that is an input of
        the function gets an Identity.
        """
        import onnx

        prefix = call.name or next(filter(None, call.output), function.name)
        arguments = list(call.input) + [""] * len(function.input)
        scope: Dict[str, str] = dict(zip(function.input, arguments))
        aliases: List[Tuple[str, str]] = []
        for inner, outer in zip(function.output, call.output):
            if outer and inner in scope:
                aliases.append((scope[inner], outer))
            elif outer:
                scope[inner] = outer
        ports = {*function.input, *function.output}
        attributes = {attribute.name: attribute for attribute in getattr(function, "attribute_proto", ())}
        attributes.update((attribute.name, attribute) for attribute in call.attribute)
        copies = self.copy_nodes(function.node, scope, prefix, attributes)
        for entry in getattr(function, "value_info", ()):
            if entry.name in scope and entry.name not in ports and hasattr(holder, "value_info"):
                holder.value_info.add().CopyFrom(entry)
                holder.value_info[-1].name = scope[entry.name]
        copies += [
            onnx.helper.make_node("Identity", [old], [new], name=self.names.fresh(prefix + "/Identity"))
            for old, new in aliases
        ]
        return copies

    def copy_nodes(
        self,
        nodes: "Sequence[onnx.NodeProto]",
        scope: Dict[str, str],
        prefix: str,
        attributes: "Mapping[str, onnx.AttributeProto]",
    ) -> "List[onnx.NodeProto]":
        """Return copies of nodes of a body, with new names and with the attributes of the call.

        - scope: name in the body -> new name. It gets an entry for each new name.
        - prefix: the start of new names. attributes: name -> attribute, of the call or by default.
        """
        for node in nodes:
            for name in node.output:
                self.name(name, scope, prefix)
        copies = []
        for node in nodes:
            copy = type(node)()
            copy.CopyFrom(node)
            copy.name = self.names.fresh("%s/%s" % (prefix, node.name)) if node.name else ""
            copy.input[:] = [self.name(name, scope, prefix) for name in node.input]
            copy.output[:] = [self.name(name, scope, prefix) for name in node.output]
            for graph in subgraphs_of(copy):  # a graph that the call gives as an attribute keeps its names
                self.rename_graph(graph, scope, prefix, attributes)
            self.resolve(copy, attributes)
            copies.append(copy)
        return copies

    def resolve(self, node: "onnx.NodeProto", attributes: "Mapping[str, onnx.AttributeProto]") -> None:
        """Replace references of `node` to attributes of the function by those in `attributes`, or remove them."""
        for position in reversed(range(len(node.attribute))):
            reference = node.attribute[position].ref_attr_name
            if not reference:
                continue
            name = node.attribute[position].name
            if reference in attributes:
                node.attribute[position].CopyFrom(attributes[reference])
                node.attribute[position].name = name
            else:
                del node.attribute[position]

    def rename_graph(
        self,
        graph: "onnx.GraphProto",
        outer: Dict[str, str],
        prefix: str,
        attributes: "Mapping[str, onnx.AttributeProto]",
    ) -> None:
        """Rename the values in `graph`, a subgraph of the body, in place, and set the attributes of its nodes.

        `outer`: name -> new name, of the values around the subgraph. It is not changed.
        """
        defined = {port.name for port in graph.input} | {tensor.name for tensor in graph.initializer}
        defined.update(tensor.values.name for tensor in graph.sparse_initializer)
        defined.update(name for node in graph.node for name in node.output)
        scope = {name: new for name, new in outer.items() if name not in defined}
        for entry in [*graph.input, *graph.initializer]:
            entry.name = self.name(entry.name, scope, prefix)
        for sparse in graph.sparse_initializer:
            sparse.values.name = self.name(sparse.values.name, scope, prefix)
        copies = self.copy_nodes(graph.node, scope, prefix, attributes)
        del graph.node[:]
        graph.node.extend(copies)
        for entry in [*graph.output, *graph.value_info]:
            entry.name = self.name(entry.name, scope, prefix)
        for annotation in graph.quantization_annotation:
            annotation.tensor_name = self.name(annotation.tensor_name, scope, prefix)
            for parameter in annotation.quant_parameter_tensor_names:
                parameter.value = self.name(parameter.value, scope, prefix)

    def name(self, name: str, scope: Dict[str, str], prefix: str) -> str:
        """Return the new name of a value. A name that `scope` lacks gets a new name there. "" stays ""."""
        if name and name not in scope:
            scope[name] = self.names.fresh("%s/%s" % (prefix, name))
        return scope.get(name, "")

"""List the ops of a TFLite model, and find the ops that compute the results of each ONNX node.

A tensor of the main subgraph that holds a value of the ONNX model has the name of the value. A tensor in the body of a branch
or loop has a name that begins with the name of its ONNX node.
"""

from collections import Counter
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from onnx_compat.shim import Node, Preview, Program, Region, Step, steps_between
from onnx_compat_tflite import flatbuffer as fb

__all__ = ["NamedValues", "op_name", "preview_model", "steps_of", "tensor_names"]


def op_name(operator: fb.OperatorSpec) -> str:
    """Return the op of an operator: "CONV_2D"; for a custom op "CUSTOM <code>"."""
    return "CUSTOM %s" % operator.custom_code if operator.builtin == "CUSTOM" else operator.builtin


def tensor_names(model: fb.ModelSpec) -> List[str]:
    """Return a list with the name of each tensor of the first subgraph.

    If the first subgraph has a signature, its inputs and outputs have their names in the signature. Any other tensor
    has its name in the file.
    """
    signature: Optional[fb.Signature] = next((entry for entry in model.signatures if entry.subgraph == 0), None)
    names = [tensor.name for tensor in model.subgraphs[0].tensors]
    for ports in (signature.inputs, signature.outputs) if signature is not None else ():
        for name, index in ports.items():
            names[index] = name
    return names


def steps_of(model: fb.ModelSpec, names: Sequence[str]) -> List[Step]:
    """Return a `Step` for each operator of the first subgraph, in running order. `names`: the result of `tensor_names`.

    Constants are left out of the inputs of a step. A fused activation is named with the op: "CONV_2D + RELU".
    """
    main = model.subgraphs[0]
    steps = []
    for operator in main.operators:
        inputs = [index for index in operator.inputs if index is not None and main.tensors[index].buffer is None]
        activation = str(operator.options.get("fused_activation_function", "NONE"))
        kind = op_name(operator) if activation == "NONE" else "%s + %s" % (op_name(operator), activation)
        steps.append(Step(kind, tuple(names[index] for index in inputs), tuple(names[i] for i in operator.outputs)))
    return steps


class NamedValues:
    """Collect the names of a recorded program when the object is created, because a build releases the program.

    - `nodes`: {name of a value: name of the ONNX node that computes it}, without the bodies of branches and loops
    - `inner`: the names of the ONNX nodes in the bodies of branches and loops
    - `inputs`: the names of the inputs
    """

    def __init__(self, program: Program) -> None:
        self.inputs = [port.name for port in program.inputs]
        self.nodes: Dict[str, str] = {}
        for node in program.region.live():
            if node.origin is not None:
                self.nodes.update((ref.name, node.origin.node) for ref in node.outputs if ref.name is not None)
        for port, value in zip(program.outputs, program.region.outputs):
            producer: Optional[Node] = getattr(value, "node", None)  # a constant has none
            if producer is not None and producer.origin is not None:
                self.nodes.setdefault(port.name, producer.origin.node)
        self.inner: Set[str] = {
            node.origin.node for node in _inner_nodes(program.region) if node.origin is not None
        } - set(self.nodes.values())


def _inner_nodes(region: Region, is_inner: bool = False) -> Iterator[Node]:
    """Yield the live nodes of the inner regions of `region`, at any depth. `is_inner`: also the nodes of `region`."""
    for node in region.live():
        if is_inner:
            yield node
        for inner in node.regions:
            yield from _inner_nodes(inner, True)


def preview_model(model: fb.ModelSpec, named: NamedValues) -> Preview:
    """Return the number of operators of each op of a model, and for each ONNX node the ops that compute its results.

    `named` has the names of the program from which the model was built.
    """
    names = tensor_names(model)
    by_value = steps_between(steps_of(model, names), {*named.nodes, *named.inputs})
    steps: Dict[str, Dict[int, str]] = {}  # node -> op by the id of its step: two values may need one step
    for value in named.nodes:
        for step in by_value.get(value, ()):
            steps.setdefault(named.nodes[value], {})[id(step)] = step.operator
    nodes: Dict[str, Tuple[str, ...]] = {node: tuple(ops.values()) for node, ops in steps.items()}
    for graph in model.subgraphs[1:]:
        for operator in graph.operators:
            owner = graph.tensors[operator.outputs[0]].name.rpartition("/")[0] if operator.outputs else ""
            if owner in named.inner:
                nodes[owner] = (*nodes.get(owner, ()), op_name(operator))
    ops = Counter(op_name(operator) for graph in model.subgraphs for operator in graph.operators)
    return Preview(dict(ops), nodes, fuses=True)

"""Build plain models of a training model: of a step, of an evaluation, of a prediction and of an initialization.

The states are inputs of these models. The model of a step has their next values as outputs.
"""

from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.boundary import typed_errors
from onnx_compat.model.loading import ModelSource
from onnx_compat.model.names import Names
from onnx_compat.model.protos import subgraphs_of, walk
from onnx_compat.retarget.protos import names_used, value_info
from onnx_compat.training.training_info import TrainingInfo, read_training_info

if TYPE_CHECKING:
    import onnx

__all__ = [
    "StepPart",
    "build_evaluation",
    "build_initializations",
    "build_prediction",
    "build_step",
    "names_read",
    "rename_values",
    "step_model",
]


class StepPart(NamedTuple):
    """A plain model of a training model.

    - proto: the model. Its inputs are those of a batch, then the states that it reads.
    - states: the states that are inputs.
    - updates: state -> name of the output with its next value. Empty if the model changes no state.
    - results: result -> name of the output.
    """

    proto: "onnx.ModelProto"
    states: Tuple[str, ...]
    updates: Dict[str, str]
    results: Dict[str, str]


@typed_errors
def step_model(model: ModelSource) -> "onnx.ModelProto":
    """Return one step of a training as a plain model, which any runtime with its operators runs.

    The inputs are the inputs of the main graph and of the algorithms, then the states under their names. The outputs are
    the results of the step, such as the loss, then the next value of each state that changes.

    Args:
        model: A model with training information: a path, bytes, a ModelProto or a Model.

    Returns:
        The model. Nodes that no output needs are left out.

    Raises:
        InvalidModelError: The model or its training information is not valid.

    Examples:
        >>> from onnx_compat.training import make_trainable, step_model
        >>> model = make_trainable("digits.onnx", "sparse_categorical_crossentropy", "sgd", form="expanded")
        >>> [port.name for port in step_model(model).graph.input][:2]
        ['image', 'labels']
    """
    return build_step(read_training_info(model)).proto


class _Combination:
    """The combined graph of all entries: each entry executes the main graph and its algorithm on the states so far.

    - nodes: the nodes of all entries. The values of a later entry have names of their own.
    - values: for each entry, name in the model -> name in the combined graph, where the two differ.
    - current: state -> name of its value after the last entry.
    """

    def __init__(self, info: TrainingInfo) -> None:
        names = Names(names_used(info.model))
        self.nodes: List[onnx.NodeProto] = []
        self.values: List[Dict[str, str]] = []
        self.current: Dict[str, str] = {state: state for state in info.states}
        used_names: Dict[str, None] = {}
        for entry in info.entries:
            nodes = [*info.model.graph.node, *entry.algorithm.node]
            renamed = {state: value for state, value in self.current.items() if value != state}
            for name in [output for node in nodes for output in node.output if output]:
                if name in used_names:
                    renamed[name] = names.fresh(name)
                used_names[name] = None
            self.nodes.extend(rename_values(node, renamed) for node in nodes)
            self.values.append(renamed)
            self.current.update({state: renamed.get(output, output) for state, output in entry.updates.items()})


def rename_values(node: "onnx.NodeProto", renamed: Dict[str, str]) -> "onnx.NodeProto":
    """Return a node whose values have other names, also in its subgraphs: `renamed` maps old names to new names.

    The node itself is returned if `renamed` is empty.
    """
    if not renamed:
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    for inner in walk([copy]):
        inner.input[:] = [renamed.get(name, name) for name in inner.input]
        inner.output[:] = [renamed.get(name, name) for name in inner.output]
        for attribute in inner.attribute if inner.op_type == "Gradient" else ():
            if attribute.name == "y":
                attribute.s = _renamed_text(attribute.s, renamed)
            elif attribute.name in ("xs", "zs"):
                attribute.strings[:] = [_renamed_text(text, renamed) for text in attribute.strings]
        for graph in subgraphs_of(inner):
            for port in graph.output:
                port.name = renamed.get(port.name, port.name)
    return copy


def _renamed_text(name: bytes, renamed: Dict[str, str]) -> bytes:
    """Return the new name of a value in UTF-8, or the given one if `renamed` has none."""
    text = name.decode("utf-8")
    return renamed.get(text, text).encode("utf-8")


def build_step(info: TrainingInfo) -> StepPart:
    """Return the model of a step: results and the next values of the states."""
    combination = _Combination(info)
    results = _results(info, combination, info.results)
    updates = {state: value for state, value in combination.current.items() if value != state}
    return _build(info, combination.nodes, results, updates, list(info.states))


def build_evaluation(info: TrainingInfo) -> StepPart:
    """Return the model that computes the results without changing a state, in inference mode if the model has it.

    For a model that `make_trainable` has not made, these are the results of a step.
    """
    combination = _Combination(info)
    named = info.metadata.get("evaluation", {})
    outputs = _results(info, combination, [named.get(result, result) for result in info.results])
    results = {result: outputs[named.get(result, result)] for result in info.results}
    return _build(info, combination.nodes, results, {}, None)


def build_prediction(info: TrainingInfo) -> StepPart:
    """Return the main graph with its states as inputs."""
    outputs = {port.name: port.name for port in info.model.graph.output}
    return _build(info, list(info.model.graph.node), outputs, {}, None, has_algorithms=False)


def build_initializations(info: TrainingInfo) -> "List[Tuple[Dict[str, str], onnx.ModelProto]]":
    """Return (bindings of the entry, model of its initialization) for each entry with bindings.

    The bindings map a state to an output. The models have no inputs.
    """
    import onnx

    models: List[Tuple[Dict[str, str], onnx.ModelProto]] = []
    for entry in info.entries:
        if entry.initial:
            model = _empty_model(info.model)
            model.graph.CopyFrom(entry.initialization)
            model.graph.name = model.graph.name or "initialization"
            models.append((entry.initial, model))
    return models


def _results(info: TrainingInfo, combination: _Combination, names: Iterable[str]) -> Dict[str, str]:
    """Return output of an algorithm -> its name in the combined graph. Of several entries, the first with it counts."""
    values: Dict[str, str] = {}
    for name in names:
        for entry, renamed in zip(info.entries, combination.values):
            if any(port.name == name for port in entry.algorithm.output):
                values.setdefault(name, renamed.get(name, name))
    return values


def _empty_model(model: "onnx.ModelProto") -> "onnx.ModelProto":
    import onnx

    return onnx.ModelProto(
        ir_version=max(model.ir_version, 4),
        opset_import=model.opset_import,
        functions=model.functions,
        producer_name=model.producer_name,
    )


def _build(
    info: TrainingInfo,
    nodes: "Sequence[onnx.NodeProto]",
    results: Dict[str, str],
    updates: Dict[str, str],
    states: Optional[List[str]],
    has_algorithms: bool = True,
) -> StepPart:
    """Return a plain model of the nodes that `results` and `updates` need.

    - states: the states that are inputs. None: those that the nodes read.
    - has_algorithms: whether the inputs and initializers of the algorithms belong to the model.
    """
    outputs = list(dict.fromkeys([*results.values(), *updates.values()]))
    kept, needed = _needed_nodes(nodes, outputs)
    used_states = [state for state in info.states if state in needed] if states is None else states
    sources = [info.model.graph, *(entry.algorithm for entry in info.entries if has_algorithms)]
    proto = _empty_model(info.model)
    proto.graph.name = info.model.graph.name or "training"
    proto.graph.node.extend(kept)
    types = {port.name: port for graph in sources for port in graph.output}
    inputs = {port.name: port for graph in sources for port in graph.input if port.name not in info.states}
    proto.graph.input.extend(inputs.values())
    proto.graph.input.extend(value_info(info.states[state]) for state in used_states)
    for graph in sources:
        proto.graph.initializer.extend(
            tensor for tensor in graph.initializer if tensor.name in needed and tensor.name not in info.states
        )
        proto.graph.sparse_initializer.extend(
            tensor for tensor in graph.sparse_initializer if tensor.values.name in needed
        )
    declared = {updates[state]: value_info(info.states[state]) for state in updates}
    for name in outputs:
        port = proto.graph.output.add()
        if name in declared or name in types:
            port.CopyFrom(declared.get(name) or types[name])
        port.name = name
    return StepPart(proto, tuple(used_states), updates, results)


def _needed_nodes(
    nodes: "Sequence[onnx.NodeProto]", outputs: Sequence[str]
) -> "Tuple[List[onnx.NodeProto], Dict[str, None]]":
    """Return (the nodes that the outputs depend on, in order; the names of all values that these nodes read).

    The names include the outputs. A node depends on what its subgraphs read, and a Gradient on the value that it
    differentiates. The nodes may be in any order.
    """
    producers = {name: k for k, node in enumerate(nodes) for name in node.output if name}
    needed: Dict[str, None] = {}
    kept: Dict[int, None] = {}
    pending = list(outputs)
    while pending:
        name = pending.pop()
        if name in needed:
            continue
        needed[name] = None
        k = producers.get(name)
        if k is not None and k not in kept:
            kept[k] = None
            pending.extend(names_read(nodes[k]))
    return [nodes[k] for k in sorted(kept)], needed


def names_read(node: "onnx.NodeProto") -> List[str]:
    """Return the names of the values that a node reads. Values that its subgraphs compute are included too."""
    names: List[str] = []
    for inner in walk([node]):
        names.extend(filter(None, inner.input))
        names.extend(port.name for graph in subgraphs_of(inner) for port in graph.output)
        if inner.op_type == "Gradient":
            names.extend(attribute.s.decode("utf-8") for attribute in inner.attribute if attribute.name == "y")
    return names

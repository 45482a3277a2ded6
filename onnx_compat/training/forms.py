"""Write the algorithm of a training in one of two forms: with a Gradient node, or expanded in ordinary operators."""

from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from onnx_compat import autodiff
from onnx_compat.errors import UnsupportedError
from onnx_compat.model import Graph
from onnx_compat.model.write import node_proto
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import Tensor
from onnx_compat.training.algorithm import AlgorithmBuilder
from onnx_compat.training.forward import ForwardGraph, needed_graph, record_step
from onnx_compat.training.objective import Objective
from onnx_compat.training.optimizer_states import OptimizerStates, ports_of
from onnx_compat.training.parts import names_read, rename_values
from onnx_compat.training.survey import TrainingSurvey

if TYPE_CHECKING:
    import numpy as np
    import onnx

__all__ = ["GRADIENT_DOMAIN", "write_evaluation", "write_expanded", "write_gradient"]

GRADIENT_DOMAIN = "ai.onnx.preview.training"


def write_expanded(
    builder: AlgorithmBuilder,
    survey: TrainingSurvey,
    objective: Objective,
    states: OptimizerStates,
    results: Sequence[str],
) -> None:
    """Add the forward pass, the loss, its derivatives and the optimizer to an algorithm, as ordinary operators.

    `results`: the names of the loss and the metrics. Raises UnsupportedError for what the operator set lacks.
    """
    outputs = [target.output for target in objective.targets]
    running = list(survey.training.statistics.values())
    graph = needed_graph(survey.training.graph, [*outputs, *running], survey.lifted)
    forward = ForwardGraph(graph, builder.offer)
    state_ports = states.ports()
    updated: List[str] = []

    def body(values: Dict[str, Tensor], computed: List[Tensor], extra: List[Tensor]) -> Sequence[Tensor]:
        count = len(survey.labels)
        predictions, statistics = computed[: len(outputs)], computed[len(outputs) :]
        named = dict(zip(states.arrays, extra[count:]))
        reported = objective.results(extra[:count], predictions)
        parameters = [values[name] for name in survey.parameters]
        gradients = autodiff.gradients(states.scale_loss(reported[0], named), parameters)
        names, following = states.apply(parameters, gradients, named)
        updated.extend([*survey.training.statistics, *names])
        return [*reported, *statistics, *following]

    program = forward.record(body, [*survey.labels, *state_ports])
    names = [*results, *(builder.names.fresh(name + "_next") for name in updated)]
    builder.add_program(program, [port.name for port in program.inputs], names, "training/")
    _declare(builder, names, program.outputs, results, updated)


def _declare(
    builder: AlgorithmBuilder,
    names: Sequence[str],
    ports: Sequence[Port],
    results: Sequence[str],
    updated: Sequence[str],
) -> None:
    """Declare outputs: the results, then the next values of the states `updated`. `ports`: the type of each."""
    for name, port in zip(results, ports):
        builder.add_output(name, port)
    for state, name, port in zip(updated, names[len(results) :], ports[len(results) :]):
        builder.bind(state, name, port)


def write_evaluation(
    builder: AlgorithmBuilder, survey: TrainingSurvey, objective: Objective, results: Sequence[str]
) -> None:
    """Add the loss and the metrics of the main graph's outputs, which is in inference mode."""
    outputs = [target.output for target in objective.targets]
    count = len(survey.labels)
    program = record_step(
        lambda *tensors: objective.results(list(tensors[:count]), list(tensors[count:])),
        [*survey.labels, *survey.predictions],
        builder.offer,
    )
    builder.add_program(program, [*(port.name for port in survey.labels), *outputs], results, "evaluation/")
    _declare(builder, results, program.outputs, results, [])


def write_gradient(
    builder: AlgorithmBuilder,
    main: "onnx.GraphProto",
    survey: TrainingSurvey,
    objective: Objective,
    states: OptimizerStates,
    parameters: "Dict[str, np.ndarray]",
    results: Sequence[str],
) -> None:
    """Add the loss, a Gradient node and the optimizer to an algorithm.

    - main: the main graph. A graph in training mode that differs from it is added too.
    - parameters: name -> array. results: the names of the loss and the metrics.

    Raises UnsupportedError for what the operator set lacks.
    """
    renamed = {} if survey.is_unchanged else _add_training_graph(builder, survey, objective)
    loss = _add_loss(builder, survey, objective, states, renamed, results)
    for state, value in survey.training.statistics.items():
        tensor = survey.training.graph.initializers[state]
        builder.bind(state, renamed[value], Port(state, tensor.dtype, tensor.shape))
    gradients = _add_gradient(builder, main, survey, loss, renamed)
    updated: List[str] = []

    def body(*tensors: Tensor) -> Sequence[Tensor]:
        count = len(parameters)
        given = list(tensors)
        names, following = states.apply(
            given[:count], given[count : 2 * count], dict(zip(states.arrays, given[2 * count :]))
        )
        updated.extend(names)
        return following

    ports = ports_of(parameters)
    program = record_step(body, [*ports, *ports, *states.ports()], builder.offer)
    names = [builder.names.fresh(name + "_next") for name in updated]
    builder.add_program(program, [*parameters, *gradients, *states.arrays], names, "optimizer/")
    _declare(builder, names, program.outputs, [], updated)


def _add_training_graph(builder: AlgorithmBuilder, survey: TrainingSurvey, objective: Objective) -> Dict[str, str]:
    """Add the nodes of the graph in training mode. Return value of the graph -> its name in the algorithm."""
    outputs = [*(target.output for target in objective.targets), *survey.training.statistics.values()]
    graph = needed_graph(survey.training.graph, outputs, survey.lifted)
    values = [name for node in graph.nodes for name in node.outputs if name]
    renamed = {name: builder.names.fresh("training/" + name) for name in values}
    opsets = _opsets(graph)
    nodes = [rename_values(node_proto(node), renamed) for node in graph.nodes]
    for node in nodes:
        node.name = builder.names.fresh("training/" + node.name)
    builder.add_nodes(nodes, opsets)
    return renamed


def _opsets(graph: Graph) -> Dict[str, int]:
    """Return domain -> version of the nodes. Raises UnsupportedError if a domain has two versions."""
    opsets: Dict[str, int] = {}
    for node in graph.walk():
        if opsets.setdefault(node.domain, node.opset) != node.opset:
            raise UnsupportedError(
                "the model has functions with other versions of the domain '%s'" % (node.domain or "ai.onnx"),
                hint="give form='expanded'",
                **node.where,
            )
    return opsets


def _add_loss(
    builder: AlgorithmBuilder,
    survey: TrainingSurvey,
    objective: Objective,
    states: OptimizerStates,
    renamed: Dict[str, str],
    results: Sequence[str],
) -> str:
    """Add the loss and the metrics. Return the name of the loss to differentiate: scaled, if the optimizer scales it."""
    shared = [port for port in states.ports() if port.name in states.shared]
    counts = len(survey.labels), len(survey.predictions)
    is_scaled: List[bool] = []

    def body(*tensors: Tensor) -> Sequence[Tensor]:
        given = list(tensors)
        reported = objective.results(given[: counts[0]], given[counts[0] : sum(counts)])
        named = {port.name: tensor for port, tensor in zip(shared, given[sum(counts) :])}
        scaled = states.scale_loss(reported[0], named)
        is_scaled.append(scaled is not reported[0])
        return [*reported, scaled] if is_scaled[0] else reported

    program = record_step(body, [*survey.labels, *survey.predictions, *shared], builder.offer)
    outputs = [renamed.get(port.name, port.name) for port in survey.predictions]
    names = [*results, *([builder.names.fresh("scaled_loss")] if is_scaled[0] else [])]
    given = [*(port.name for port in survey.labels), *outputs, *(port.name for port in shared)]
    builder.add_program(program, given, names, "loss/")
    _declare(builder, names, program.outputs, results, [])
    return names[-1] if is_scaled[0] else results[0]


def _add_gradient(
    builder: AlgorithmBuilder, main: "onnx.GraphProto", survey: TrainingSurvey, loss: str, renamed: Dict[str, str]
) -> List[str]:
    """Add a Gradient node of the loss with respect to the parameters. Return the names of its outputs.

    `renamed`: value of the graph in training mode -> its name in the algorithm.
    """
    import onnx

    gradients = [builder.names.fresh(name + "_gradient") for name in survey.parameters]
    fixed = _fixed_values(builder, main, survey, loss, renamed)
    attributes: Dict[str, Any] = {"xs": list(survey.parameters), "y": loss, **({"zs": fixed} if fixed else {})}
    inputs, name = [*survey.parameters, *fixed], builder.names.fresh("gradient")
    node = onnx.helper.make_node("Gradient", inputs, gradients, name=name, domain=GRADIENT_DOMAIN, **attributes)
    builder.add_nodes([node], {GRADIENT_DOMAIN: 1})
    return gradients


def _fixed_values(
    builder: AlgorithmBuilder, main: "onnx.GraphProto", survey: TrainingSurvey, loss: str, renamed: Dict[str, str]
) -> List[str]:
    """Return the values that the loss depends on and that count as constants: inputs, states and random masks.

    The arguments are those of `_add_gradient`.
    """
    nodes = [*main.node, *builder.graph.node]
    producers = {name: node for node in nodes for name in node.output if name}
    masks = [renamed[name] for name in survey.training.masks]
    stored = {tensor.name for tensor in main.initializer}
    inputs = [port.name for port in main.input if port.name not in stored]
    inputs += [port.name for port in survey.labels] + builder.states + list(survey.training.statistics)
    ends = {*inputs, *masks}
    fixed_values: Dict[str, None] = {}
    seen: Dict[str, None] = dict.fromkeys(survey.parameters)
    pending = [loss]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen[name] = None
        if name in ends:
            fixed_values[name] = None
        elif name in producers:
            pending.extend(names_read(producers[name]))
    return [name for name in [*inputs, *masks] if name in fixed_values]

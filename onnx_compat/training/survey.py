"""TrainingSurvey a model before its training is written: types, training mode, and the parameters that a gradient reaches."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from onnx_compat import autodiff
from onnx_compat.errors import NeedsKnownError, UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import Graph, TensorType
from onnx_compat.model.names import Names
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import Tensor
from onnx_compat.training.forward import ForwardGraph, SizeNames, needed_graph
from onnx_compat.training.objective import Objective
from onnx_compat.training.parameters import Patterns, choose_parameters, no_parameter_error
from onnx_compat.training.training_mode import TrainingGraph, to_training_mode

__all__ = ["TrainingSurvey", "survey_model"]

#: The hint for a derivative that does not exist.
_DERIVATIVE_HINT = "freeze the parameters before this node by trainable=[…], or replace the operator"


class TrainingSurvey(NamedTuple):
    """The facts about a main graph that its training model needs.

    - parameters: the initializers that are trained.
    - training: the graph in training mode.
    - labels: a port for the labels of each target. predictions: a port for each target.
    - is_unchanged: whether the graph in training mode is the main graph.
    """

    parameters: Tuple[str, ...]
    training: TrainingGraph
    labels: Tuple[Port, ...]
    predictions: Tuple[Port, ...]

    @property
    def is_unchanged(self) -> bool:
        return not self.training.statistics and not self.training.masks

    @property
    def lifted(self) -> List[str]:
        """The initializers that change: parameters, then running statistics."""
        return [*self.parameters, *self.training.statistics]


def survey_model(
    graph: Graph, objective: Objective, trainable: Patterns, offer: OperatorOffer, names: Names
) -> TrainingSurvey:
    """Return the survey of a model.

    `names`: the names in use; new names are added to it. Raises InputError if no parameter, or not each parameter that
    `trainable` names, is reached by the gradient of the loss. Raises UnsupportedError for a derivative that does not
    exist, and the errors of the trace.
    """
    outputs = [target.output for target in objective.targets]
    candidates = choose_parameters(graph, trainable)
    if not candidates:
        raise no_parameter_error(candidates)
    sizes = SizeNames()
    types = None
    while types is None:
        try:
            types = _types(graph, outputs, candidates, offer, sizes)
        except NeedsKnownError as error:
            settings = error.values.intersection(candidates)
            if trainable is not None or not settings:
                raise
            candidates = [name for name in candidates if name not in settings]
    dtypes, known, predictions = types
    labels = [
        _labels_port(target.labels, target.labels_type(port.dtype, port.shape))
        for target, port in zip(objective.targets, predictions)
    ]
    training = to_training_mode(graph, candidates, dtypes, known, names)
    parameters = _find_reached(training, objective, candidates, labels, offer)
    missed = [name for name in candidates if name not in parameters]
    if not parameters or (trainable is not None and missed):
        raise no_parameter_error(missed)
    return TrainingSurvey(tuple(parameters), training, tuple(labels), tuple(predictions))


def _labels_port(name: str, kind: TensorType) -> Port:
    assert kind.dtype is not None and kind.shape is not None
    shape = ["%s/%d" % (name, axis) if size is None else size for axis, size in enumerate(kind.shape)]
    return Port(name, kind.dtype, tuple(shape))


def _types(
    graph: Graph, outputs: Sequence[str], lifted: Sequence[str], offer: OperatorOffer, sizes: SizeNames
) -> Tuple[Dict[str, DType], Dict[str, float], List[Port]]:
    """Return (value name -> dtype, name -> number of known scalars, a port for each output) of the main graph.

    `lifted`: the initializers that are inputs of the trace. `sizes` learns the names of the sizes.
    Raises the errors of the trace.
    """
    dtypes: Dict[str, DType] = {}
    known: Dict[str, float] = {}
    ports: List[Port] = []
    forward = ForwardGraph(needed_graph(graph, outputs, lifted), offer)

    def watch(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            dtypes[name] = value.dtype
            if value.value is not None and value.dtype.kind == "f" and value.value.size == 1:
                known[name] = float(np.ravel(value.value)[0])

    def body(values: Dict[str, Tensor], results: List[Tensor], _: List[Tensor]) -> Sequence[Tensor]:
        sizes.learn(forward.ports, list(values.values()))
        ports.extend(Port(name, value.dtype, sizes.shape(value)) for name, value in zip(outputs, results))
        return results

    forward.record(body, watch=watch)
    return dtypes, known, ports


def _find_reached(
    training: TrainingGraph,
    objective: Objective,
    candidates: Sequence[str],
    labels: Sequence[Port],
    offer: OperatorOffer,
) -> List[str]:
    """Return the candidates that the gradient of the loss reaches, in order.

    Raises UnsupportedError for a derivative that does not exist.
    """
    outputs = [target.output for target in objective.targets]
    forward = ForwardGraph(needed_graph(training.graph, outputs, [*candidates, *training.statistics]), offer)
    reached: List[str] = []

    def body(values: Dict[str, Tensor], results: List[Tensor], extra: List[Tensor]) -> Sequence[Tensor]:
        loss = objective.results(extra, results)[0]
        gradients = autodiff.gradients(loss, [values[name] for name in candidates])
        reached.extend(name for name, gradient in zip(candidates, gradients) if gradient.value is None)
        return [loss]

    try:
        forward.record(body, labels)
    except UnsupportedError as error:
        if "derivative" in error.reason:
            error.hint = _DERIVATIVE_HINT
        raise
    return reached

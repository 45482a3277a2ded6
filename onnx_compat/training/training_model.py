"""`make_trainable`: add the training information to an ONNX model."""

import json
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Union

import numpy as np

from onnx_compat.boundary import typed_errors
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import to_public
from onnx_compat.model import Graph, Initializer, load
from onnx_compat.model.loading import ModelSource
from onnx_compat.model.names import Names
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.retarget.protos import names_used
from onnx_compat.training.algorithm import AlgorithmBuilder
from onnx_compat.training.forms import write_evaluation, write_expanded, write_gradient
from onnx_compat.training.initial_values import write_initialization
from onnx_compat.training.objective import Labels, Loss, Metric, Objective, make_objective
from onnx_compat.training.optimizer_states import OptimizerStates
from onnx_compat.training.optimizers import Optimizer
from onnx_compat.training.optimizers import optimizer as optimizer_of_name
from onnx_compat.training.parameters import Patterns
from onnx_compat.training.survey import TrainingSurvey, survey_model
from onnx_compat.training.training_info import METADATA, proto_of

if TYPE_CHECKING:
    import onnx

__all__ = ["make_trainable"]

_FORMS = ("gradient", "expanded")
#: The first IR version with training information.
_IR_VERSION = 7


@typed_errors
def make_trainable(
    model: ModelSource,
    loss: Loss,
    optimizer: Union[str, Optimizer] = "sgd",
    trainable: Patterns = None,
    labels: Labels = None,
    metrics: Sequence[Metric] = (),
    form: str = "gradient",
    opset: Optional[int] = None,
) -> "onnx.ModelProto":
    """Return an ONNX training model: the model with training information. The main graph stays as it is.

    In the step, BatchNormalization normalises by the batch and updates its running statistics, and Dropout draws masks.
    A BatchNormalization whose scale and bias are not trained stays in inference mode.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        loss: A name of Keras or ONNX ("mse", "softmax_cross_entropy"), a function (labels, predictions) over primitives,
            or an ONNX function, graph or model with these two inputs. For a model with several outputs: a dict from the
            name of an output to its loss; the losses are added.
        optimizer: A name, or the result of `onnx_compat.training.optimizer(name, learning_rate, ...)`.
        trainable: The initializers to train, as names with the wildcards of `fnmatch`. None: every float initializer
            with an axis that the gradient of the loss reaches, and that is no statistic or setting of an operator.
        labels: The name of the labels, or their declaration with a type, for each loss. None: "labels", of the shape of
            the predictions, or class indices for losses of class indices.
        metrics: Names, or functions (labels, predictions) over primitives, for the first loss.
        form: "gradient" writes the operator Gradient; "expanded" writes the derivatives in ordinary operators, which
            every ONNX runtime runs.
        opset: The version of ai.onnx. The model is retargeted to it first. None: that of the model.

    Returns:
        The training model.

    Raises:
        InputError: An argument is wrong, or no parameter is reached by the gradient of the loss.
        InvalidModelError: The model is not valid.
        UnsupportedError: A derivative does not exist, or the operator set lacks an operator.

    Examples:
        >>> from onnx_compat.training import make_trainable
        >>> model = make_trainable("digits.onnx", "sparse_categorical_crossentropy", "adam", metrics=["accuracy"])
        >>> [port.name for port in model.training_info[0].algorithm.output][:2]
        ['loss', 'accuracy']
    """
    if form not in _FORMS:
        raise InputError("there is no form '%s'" % form, hint="the forms are %s" % " and ".join(map(repr, _FORMS)))
    if isinstance(optimizer, str):
        optimizer = optimizer_of_name(optimizer)
    proto = _copy_at(model, opset)
    loaded = load(proto)
    names = Names(names_used(proto))
    objective = make_objective(loaded.graph, loss, labels, metrics, names, loaded.opsets)
    offer = OperatorOffer(loaded.opset)
    survey = survey_model(loaded.graph, objective, trainable, offer, names)
    _write(proto, loaded.graph, survey, objective, optimizer, AlgorithmBuilder(proto.graph, offer, names), form)
    return proto


def _copy_at(model: ModelSource, opset: Optional[int]) -> "onnx.ModelProto":
    """Return a copy of a model at an opset, without training information. None: the opset of the model."""
    source = proto_of(model)
    copy = type(source)()
    copy.CopyFrom(source)
    del copy.training_info[:]
    if opset is None or opset == load(copy).opset:
        return copy
    from onnx_compat.retarget.conversion import retarget

    return retarget(copy, opset)


def _write(
    proto: "onnx.ModelProto",
    graph: Graph,
    survey: TrainingSurvey,
    objective: Objective,
    optimizer: Optimizer,
    builder: AlgorithmBuilder,
    form: str,
) -> None:
    """Add the training information to `proto`, in place. The arguments are those of `make_trainable`, prepared.

    `graph`: the main graph of the model, loaded.
    """
    import onnx

    parameters = {name: _array(graph.initializers[name]) for name in survey.parameters}
    statistics = {name: _array(graph.initializers[name]) for name in survey.training.statistics}
    results = [builder.names.fresh(name) for name in ("loss", *objective.metrics)]
    states = OptimizerStates(optimizer, parameters, builder.names)
    declared = {size for port in graph.inputs for size in getattr(port.type, "shape", None) or () if size is not None}
    for port in survey.labels:
        builder.add_input(port, [size for size in declared if isinstance(size, str)])
    for name, array in states.arrays.items():
        builder.add_state(name, array)
    evaluated = [builder.names.fresh("evaluation_" + name) for name in results]
    if form == "expanded":
        write_expanded(builder, survey, objective, states, results)
    else:
        write_gradient(builder, proto.graph, survey, objective, states, parameters, results)
    if not survey.is_unchanged:
        write_evaluation(builder, survey, objective, evaluated)
    initialization, bindings = write_initialization(graph, parameters, statistics, states.arrays)
    info = proto.training_info.add(algorithm=builder.graph, initialization=initialization)
    for field, pairs in ((info.initialization_binding, bindings), (info.update_binding, builder.updates)):
        field.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in pairs.items())
    _import_opsets(proto, builder.opsets)
    metadata: Dict[str, Any] = {"results": results, "statistics": list(statistics)}
    if not survey.is_unchanged:
        metadata["evaluation"] = dict(zip(results, evaluated))
    kept_metadata = [entry for entry in proto.metadata_props if entry.key != METADATA]
    del proto.metadata_props[:]
    proto.metadata_props.extend([*kept_metadata, onnx.StringStringEntryProto(key=METADATA, value=json.dumps(metadata))])
    proto.ir_version = max(proto.ir_version, _IR_VERSION)


def _array(initializer: Initializer) -> np.ndarray:
    return np.asarray(to_public(initializer.array(), initializer.dtype))


def _import_opsets(proto: "onnx.ModelProto", opsets: Dict[str, int]) -> None:
    """Add the operator sets that `proto` does not import yet, in place."""
    imported = {"" if entry.domain == "ai.onnx" else entry.domain for entry in proto.opset_import}
    for domain, version in opsets.items():
        if domain not in imported:
            proto.opset_import.add(domain=domain, version=version)

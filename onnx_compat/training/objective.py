"""The objective of a training: the losses of outputs, their labels, and the metrics."""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from onnx_compat import primitives as p
from onnx_compat.errors import InputError, InvalidModelError
from onnx_compat.ir.dtypes import DType, float32, int64
from onnx_compat.model import Graph, TensorType, ValueInfo, load
from onnx_compat.model.names import Names
from onnx_compat.model.types import Dim
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.values import Tensor
from onnx_compat.training.losses import loss_function, scalar_loss
from onnx_compat.training.metrics import metric_function, scalar_metric

if TYPE_CHECKING:
    import onnx

__all__ = ["Labels", "Loss", "LossTarget", "Metric", "Objective", "make_objective"]

#: A loss: its name, a function (labels, predictions) over primitives, or an ONNX function, graph or model. A pair of a
#: name or a function and a dict has the options of the loss.
Loss = Any
#: A metric: its name or a function (labels, predictions) over primitives; a pair of these and a dict has its options.
Metric = Any
#: The labels: a name, or a declaration of ONNX with a type; a sequence of these for several losses.
Labels = Union[None, str, "onnx.ValueInfoProto", Sequence[Any]]

#: The losses whose labels are class indices -> the axis of the predictions that counts the classes.
_CLASS_AXES = {"sparse_categorical_crossentropy": -1, "softmax_cross_entropy": 1, "negative_log_likelihood": 1}


class LossTarget(NamedTuple):
    """An output of the model with its loss.

    - output: the name of the output. labels: the name of its labels.
    - loss: a function (labels, predictions) -> scalar.
    - class_axis: the axis of the predictions that counts the classes, if the labels are class indices; else None.
    - type: the declared type of the labels; None: it follows from the loss and the predictions.
    """

    output: str
    labels: str
    loss: Callable[[Tensor, Tensor], Tensor]
    class_axis: Optional[int]
    type: Optional[TensorType]

    def labels_type(self, dtype: DType, shape: Sequence[Dim]) -> TensorType:
        """Return the type of the labels, for predictions of `dtype` and `shape`."""
        if self.type is not None and self.type.dtype is not None and self.type.shape is not None:
            return self.type
        declared = None if self.type is None else self.type.dtype
        if self.class_axis is None:
            return TensorType(declared or (dtype if dtype.bits >= 32 else float32), tuple(shape))
        axis = self.class_axis % max(len(shape), 1)
        return TensorType(declared or int64, (*shape[:axis], *shape[axis + 1 :]))


class Objective(NamedTuple):
    """The objective: the targets, and the metrics of the first target as name -> function."""

    targets: Tuple[LossTarget, ...]
    metrics: Dict[str, Callable[[Tensor, Tensor], Tensor]]

    def results(self, labels: Sequence[Tensor], predictions: Sequence[Tensor]) -> List[Tensor]:
        """Return [loss, *metrics]. `labels`, `predictions`: one for each target."""
        losses = [target.loss(label, value) for target, label, value in zip(self.targets, labels, predictions)]
        total = losses[0]
        for loss in losses[1:]:
            total = p.add(total, loss)
        return [total, *(metric(labels[0], predictions[0]) for metric in self.metrics.values())]


def make_objective(
    graph: Graph,
    loss: Loss,
    labels: Labels,
    metrics: Sequence[Metric],
    names: Names,
    opsets: Mapping[str, int],
) -> Objective:
    """Return the objective of a training.

    - loss: the loss of the only output, or output name -> loss; the losses are added.
    - labels: the names of the labels, in the order of the losses, or their declarations. None: "labels", or
      "labels_" and the name of the output if there are several losses.
    - names: the names in use; new names are added to it.
    - opsets: the operator sets of a loss that is a GraphProto.

    Raises InputError for an unknown output, loss or metric, and for labels that do not fit.
    """
    by_output = _losses_of_outputs(graph, loss)
    declared = _declarations(labels, list(by_output))
    targets = []
    for (output, given), port in zip(by_output.items(), declared):
        if port.name in names.used:
            raise InputError(
                "the name '%s' of the labels is in use in the model" % port.name, hint="give labels= another name"
            )
        names.reserve([port.name])
        kind = port.type if isinstance(port.type, TensorType) else None
        function, class_axis = _loss_function(given, opsets)
        targets.append(LossTarget(output, port.name, function, class_axis, kind))
    return Objective(tuple(targets), dict(map(_metric, metrics)))


def _losses_of_outputs(graph: Graph, loss: Any) -> Dict[str, Any]:
    """Return output name -> loss. Raises InputError for an unknown output, and without a choice among several."""
    outputs = [port.name for port in graph.outputs]
    if not isinstance(loss, Mapping):
        if len(outputs) > 1:
            raise InputError(
                "the model has several outputs: %s" % ", ".join(map(repr, outputs)),
                hint="give the loss as a dict from the name of an output: loss={%r: …}" % outputs[0],
            )
        return {outputs[0]: loss}
    unknown = [name for name in loss if name not in outputs]
    if unknown or not loss:
        raise InputError(
            "the model has no output '%s'" % unknown[0] if unknown else "no loss is given",
            hint="the outputs are %s" % ", ".join(map(repr, outputs)),
        )
    return dict(loss)


def _declarations(labels: Labels, outputs: Sequence[str]) -> List[ValueInfo]:
    """Return a name and a type for the labels of each output. Raises InputError for a wrong number of labels."""
    from onnx_compat.model.read import Reader
    from onnx_compat.model.schema import MODEL
    from onnx_compat.model.wire import BytesSource, parse

    if labels is None:
        given: List[Any] = ["labels"] if len(outputs) == 1 else ["labels_" + output for output in outputs]
    else:
        given = list(labels) if isinstance(labels, (list, tuple)) else [labels]
    if len(given) != len(outputs):
        raise InputError(
            "there are %d losses and %d labels" % (len(outputs), len(given)), hint="give the labels of each loss"
        )
    ports: List[ValueInfo] = []
    for item in given:
        if isinstance(item, str):
            ports.append(ValueInfo(item, None))
            continue
        if getattr(getattr(item, "DESCRIPTOR", None), "full_name", "") != "onnx.ValueInfoProto":
            raise InputError(
                "the labels are a %s" % type(item).__name__,
                hint="give a name, or onnx.helper.make_tensor_value_info(name, type, shape)",
            )
        import onnx

        holder = onnx.ModelProto(graph=onnx.GraphProto(input=[item]))
        record = parse(BytesSource(holder.SerializeToString()), MODEL)[0]
        port = record.graph.input[0]
        ports.append(ValueInfo(port.name, Reader(None).type(port.type)))
    return ports


def _loss_function(loss: Any, opsets: Mapping[str, int]) -> Tuple[Callable[[Tensor, Tensor], Tensor], Optional[int]]:
    """Return (function (labels, predictions) -> scalar, class axis or None).

    Raises InputError for a loss of another type than `make_trainable` takes.
    """
    loss, options = _split_options(loss)
    kind = getattr(getattr(loss, "DESCRIPTOR", None), "full_name", "")
    if kind:
        graph = _loss_graph(loss, kind, opsets)
        return lambda labels, predictions: scalar_loss(_graph_function(graph), labels, predictions), None
    if not isinstance(loss, str):
        if not callable(loss):
            raise InputError(
                "the loss is a %s" % type(loss).__name__,
                hint="give a name, a function (labels, predictions), or an ONNX function, graph or model",
            )
        return lambda labels, predictions: scalar_loss(loss, labels, predictions, **options), None
    function = loss_function(loss)
    axis = next((axis for name, axis in _CLASS_AXES.items() if loss_function(name) is function), None)
    axis = axis if axis is None else options.get("axis", axis)
    return lambda labels, predictions: scalar_loss(function, labels, predictions, **options), axis


def _split_options(item: Any) -> Tuple[Any, Dict[str, Any]]:
    """Return (loss or metric, options). An item that is no pair has no options."""
    if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[1], Mapping):
        return item[0], dict(item[1])
    return item, {}


def _graph_function(graph: Graph) -> Callable[..., Tensor]:
    def function(labels: Tensor, predictions: Tensor) -> Tensor:
        values: List[Tensor] = Interpreter().run(graph, [labels, predictions])
        return values[0]

    return function


def _loss_graph(loss: Any, kind: str, opsets: Mapping[str, int]) -> Graph:
    """Return the graph of a loss that is an ONNX message of the type `kind`.

    Its inputs are the labels and the predictions, and its first output is the loss. Raises InvalidModelError for a graph
    with other inputs.
    """
    import onnx

    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    if kind == "onnx.FunctionProto":
        domain = loss.domain or "loss"
        function = onnx.FunctionProto()
        function.CopyFrom(loss)
        function.domain = domain
        node = onnx.helper.make_node(loss.name, list(loss.input), list(loss.output), domain=domain)
        ports = [[onnx.ValueInfoProto(name=name) for name in names] for names in (loss.input, loss.output)]
        body = onnx.GraphProto(name="loss", node=[node], input=ports[0], output=ports[1])
        imports = [*loss.opset_import, onnx.helper.make_opsetid(domain, 1)]
        loss = onnx.ModelProto(ir_version=10, graph=body, opset_import=imports, functions=[function])
    elif kind == "onnx.GraphProto":
        loss = onnx.ModelProto(ir_version=8, graph=loss, opset_import=imports)
    graph = load(loss).graph
    if len(graph.required) != 2:
        raise InvalidModelError(
            "the loss has the inputs %s" % [port.name for port in graph.required],
            hint="a loss takes two inputs: the labels, then the predictions",
        )
    return Graph(graph.name, graph.required, graph.outputs, graph.nodes, graph.initializers)


def _metric(metric: Any) -> Tuple[str, Callable[[Tensor, Tensor], Tensor]]:
    """Return (name, function (labels, predictions) -> scalar) of a metric. Raises InputError for another object."""
    metric, options = _split_options(metric)
    if isinstance(metric, str):
        function = metric_function(metric)
        return metric, lambda labels, predictions: scalar_metric(function, labels, predictions, **options)
    if not callable(metric):
        raise InputError(
            "a metric is a %s" % type(metric).__name__, hint="give a name, or a function (labels, predictions)"
        )
    return metric.__name__, lambda labels, predictions: scalar_metric(metric, labels, predictions, **options)

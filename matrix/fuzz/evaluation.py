"""Evaluation of a node by onnx's ReferenceEvaluator, or by onnxruntime where the ReferenceEvaluator refuses."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
from onnx.reference import ReferenceEvaluator

from matrix.fuzz.graphs import Graph, Node, Port, free_names, to_model, walk
from matrix.fuzz.values import Rejected

__all__ = ["evaluate", "evaluator_of", "normalise", "session_of"]

Evaluator = Callable[[Dict[str, Any]], List[Any]]
#: Operators whose implementation in the ReferenceEvaluator differs from the specification, or is too slow.
_BY_RUNTIME = frozenset(
    "AveragePool BatchNormalization Col2Im ConvTranspose GRU GlobalAveragePool GlobalMaxPool GridSample Hardmax LRN LSTM Loop LpNormalization MaxPool RNN Resize"
    " SequenceInsert Unique".split()
)


def evaluate(node: Node, opset: int, feeds: Sequence[Dict[str, Any]], ports: Dict[str, Port]) -> List[List[Any]]:
    """Return the outputs of a node for each of `feeds`: a list of values, without outputs that have no name.

    `ports`: name -> port of each value that the node or its bodies read. Raises Rejected if neither the
    ReferenceEvaluator nor onnxruntime computes the node.
    """
    read = sorted(free_names([node]))
    outputs = [name for name in node.outputs if name]
    graph = Graph(
        tuple(ports[name] for name in read), tuple(Port(name, "float32", None) for name in outputs), (node,), {}
    )
    inputs = [{name: feed[name] for name in read} for feed in feeds]
    evaluators = (
        [session_of, evaluator_of] if node.operator in _BY_RUNTIME or node.domain else [evaluator_of, session_of]
    )
    for make in evaluators:
        try:
            run = make(graph, opset)
            return [run(feed) for feed in inputs]
        except Exception:  # noqa: BLE001, S112 - each evaluator has its own exceptions; another may compute the node
            continue
    raise Rejected("no evaluator")


def evaluator_of(graph: Graph, opset: int) -> Evaluator:
    """Return a function that runs a graph with onnx's ReferenceEvaluator: inputs by name -> list of outputs.

    Raises ValueError for a graph with a Loop: the ReferenceEvaluator gives its scan outputs a wrong rank.
    """
    if any(node.operator == "Loop" for node in walk(graph)):
        raise ValueError("the ReferenceEvaluator gives scan outputs of a Loop another rank")
    evaluator = ReferenceEvaluator(to_model(graph, opset))

    def run(feed: Dict[str, Any]) -> List[Any]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [normalise(value) for value in evaluator.run(None, feed)]

    return run


def session_of(graph: Graph, opset: int) -> Evaluator:
    """Return a function that runs a graph with onnxruntime, without optimisations: inputs by name -> list of outputs.

    onnxruntime infers the types of the outputs; the types in their ports are not used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = to_model(graph, opset)
    for output in model.graph.output:
        output.ClearField("type")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    needed = {port.name for port in session.get_inputs()}
    return lambda feed: [
        normalise(value) for value in session.run(None, {name: value for name, value in feed.items() if name in needed})
    ]


def normalise(value: Any) -> Any:
    """Return an evaluator's output as a numpy array, with strings as objects.

    A sequence becomes a list of arrays. None, an empty optional, stays None.
    """
    if isinstance(value, (list, tuple)):
        return [normalise(item) for item in value]
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array

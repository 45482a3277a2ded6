"""Put a graph into training mode: BatchNormalization with the statistics of the batch, Dropout with random masks."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import DType, float32
from onnx_compat.model import Constant, Graph, GraphNode
from onnx_compat.model.names import Names

__all__ = ["TrainingGraph", "to_training_mode"]


class TrainingGraph(NamedTuple):
    """A graph in training mode.

    - graph: the graph.
    - statistics: running statistic, an initializer -> the value that replaces it after a step.
    - masks: the values that are drawn at random and that no gradient passes through.
    """

    graph: Graph
    statistics: Dict[str, str]
    masks: Tuple[str, ...]


def to_training_mode(
    graph: Graph, parameters: Sequence[str], dtypes: Mapping[str, DType], known: Mapping[str, float], names: Names
) -> TrainingGraph:
    """Return the graph in training mode.

    - parameters: the initializers that are trained. A BatchNormalization trains if its scale or its bias is one of them
      and its statistics are initializers; otherwise it stays in inference mode.
    - dtypes: value name -> dtype, of the inputs of Dropouts.
    - known: value name -> number, of the computed ratios of Dropouts.
    - names: the names in use; new names are added to it.

    A Dropout becomes `mask * input`. The mask is 1 / (1 - ratio) for an element that is kept, else 0.

    Raises UnsupportedError for a Dropout in a subgraph, and for one whose mask is read before opset 10.
    """
    return _TrainingMode(graph, set(parameters), dtypes, known, names).convert()


class _TrainingMode:
    """Converts the nodes of a graph to training mode. The arguments are those of `to_training_mode`."""

    def __init__(
        self,
        graph: Graph,
        parameters: Set[str],
        dtypes: Mapping[str, DType],
        known: Mapping[str, float],
        names: Names,
    ) -> None:
        self.graph = graph
        self.parameters = parameters
        self.dtypes = dtypes
        self.names = names
        self.statistics: Dict[str, str] = {}
        self.masks: List[str] = []
        self.known = known

    def convert(self) -> TrainingGraph:
        nodes: List[GraphNode] = []
        for node in self.graph.nodes:
            if node.domain == "" and node.operator == "BatchNormalization" and self.is_trained(node):
                nodes.append(self.batch_normalization(node))
            elif node.domain == "" and node.operator == "Dropout" and self.ratio(node) != 0:
                nodes.extend(self.dropout(node))
            else:
                self.check_subgraphs(node)
                nodes.append(node)
        graph = self.graph
        converted = Graph(
            graph.name, graph.inputs, graph.outputs, nodes, graph.initializers, graph.value_info, graph.doc
        )
        return TrainingGraph(converted, self.statistics, tuple(self.masks))

    def check_subgraphs(self, node: GraphNode) -> None:
        for inner in (inner for graph in node.subgraphs() for inner in graph.walk()):
            if inner.domain == "" and inner.operator == "Dropout":
                raise UnsupportedError(
                    "a Dropout in a subgraph cannot be put into training mode",
                    hint="remove the Dropout, or move it out of the branch or loop",
                    **inner.where,
                )

    # -- BatchNormalization --------------------------------------------------------------------------------------------
    def is_trained(self, node: GraphNode) -> bool:
        return not self.parameters.isdisjoint(node.inputs[1:3]) and all(
            name in self.graph.initializers for name in node.inputs[3:5]
        )

    def batch_normalization(self, node: GraphNode) -> GraphNode:
        """Return the node in training mode. Its running statistics are recorded in `statistics`.

        A second node with the same statistics continues with those of the first.
        """
        attributes = {
            name: value for name, value in node.attributes.items() if name not in ("is_test", "training_mode")
        }
        if node.opset >= 14:
            attributes["training_mode"] = 1
        inputs = [*node.inputs[:3], *(self.statistics.get(name, name) for name in node.inputs[3:5])]
        running = [self.names.fresh(name + "_next") for name in node.inputs[3:5]]
        self.statistics.update(zip(node.inputs[3:5], running))
        outputs = [node.outputs[0], *running]
        if node.opset < 14:
            outputs += [self.names.fresh(name + "_batch") for name in node.inputs[3:5]]
        return GraphNode(node.operator, inputs, outputs, attributes, node.domain, node.opset, node.name)

    # -- Dropout -------------------------------------------------------------------------------------------------------
    def ratio(self, node: GraphNode) -> float:
        """Return the ratio of a Dropout. Raises UnsupportedError if only a run knows it."""
        if node.opset < 12:
            return float(node.attributes.get("ratio", 0.5))
        name = node.inputs[1] if len(node.inputs) > 1 else ""
        if not name:
            return 0.5
        stored = self.graph.initializers.get(name)
        if stored is None and name not in self.known:
            raise UnsupportedError(
                "the ratio of a Dropout must be known in a training model",
                hint="store the ratio as an initializer",
                node=node.name,
            )
        return self.known[name] if stored is None else float(stored.array())

    def dropout(self, node: GraphNode) -> List[GraphNode]:
        """Return the nodes of `mask * input`, with the outputs of a Dropout.

        Raises UnsupportedError if the mask is read before opset 10: its dtype is another one there.
        """
        x, opset, ratio = node.inputs[0], node.opset, self.ratio(node)
        dtype = self.dtypes[x]
        has_mask = len(node.outputs) > 1 and bool(node.outputs[1])
        if has_mask and opset < 10:
            raise UnsupportedError(
                "the mask of a Dropout before opset 10 is not written", hint="give opset=13", **node.where
            )
        base = node.name + "/"
        nodes: List[GraphNode] = []

        def call(operator: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
            output = output or self.names.fresh(base + operator)
            name = self.names.fresh(base + operator + "_node")
            nodes.append(GraphNode(operator, inputs, [output], attributes, "", opset, name))
            return output

        def constant(value: float, kind: DType) -> str:
            return call("Constant", [], value=Constant(np.asarray(value, kind.numpy), kind))

        seed: Dict[str, Any] = {"seed": float(node.attributes["seed"])} if "seed" in node.attributes else {}
        noise = call("RandomUniformLike", [x], dtype=float32.onnx, **seed)
        kept = call("Not", [call("Less", [noise, constant(ratio, float32)])], node.outputs[1] if has_mask else "")
        factor = constant(0 if ratio >= 1 else 1 / (1 - ratio), dtype)
        mask = call("Mul", [call("Cast", [kept], to=dtype.onnx), factor])
        call("Mul", [x, mask], node.outputs[0])
        self.masks.append(mask)
        return nodes

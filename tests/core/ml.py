"""Run an operator of ai.onnx.ml in onnxruntime and on the shim under test, with a symbolic batch size, and compare."""

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from onnx import TensorProto, TypeProto, ValueInfoProto, helper

import onnx_compat

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.23")

__all__ = ["ML", "agree", "grown", "map_type", "ours", "theirs"]

ML = "ai.onnx.ml"


def map_type(key: int, element: int) -> Any:
    kind = TypeProto()
    kind.map_type.key_type = key
    kind.map_type.value_type.tensor_type.elem_type = element
    return kind


def _port(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        dtype = TensorProto.STRING if value.dtype == object else helper.np_dtype_to_tensor_dtype(value.dtype)
        shape = [name + "_rows", *value.shape[1:]]
        return helper.make_tensor_value_info(name, dtype, shape)
    return ValueInfoProto(name=name, type=value)


def proto(operator: str, version: int, ports: Sequence[Any], outputs: Sequence[Any], attributes: Dict[str, Any]) -> Any:
    """Return a model of one node. `ports`: arrays or types of the inputs; `outputs`: element types, or types."""
    names = ["x%d" % k for k in range(len(ports))]
    results = ["y%d" % k for k in range(len(outputs))]
    item = helper.make_node(operator, names, results, domain=ML, **attributes)
    declared = [
        helper.make_tensor_value_info(name, kind, None) if isinstance(kind, int) else _port(name, kind)
        for name, kind in zip(results, outputs)
    ]
    graph = helper.make_graph([item], "graph", [_port(n, port) for n, port in zip(names, ports)], declared)
    opsets = [helper.make_opsetid(ML, version), helper.make_opsetid("", 15)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def theirs(model: Any, feed: Dict[str, Any]) -> List[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


def ours(model: Any, feed: Dict[str, Any]) -> List[Any]:
    return list(onnx_compat.prepare(model).run(feed))


def agree(
    operator: str, version: int, inputs: Sequence[Any], outputs: Sequence[Any], types: Any = None, **attributes: Any
) -> List[Any]:
    """Assert that an operator agrees with onnxruntime, and return its results.

    Floats may differ by a few roundings; other values, dtypes and shapes must be equal.
    """
    model = proto(operator, version, types or inputs, outputs, attributes)
    feed = {"x%d" % k: item for k, item in enumerate(inputs)}
    mine, theirs_outputs = ours(model, feed), theirs(model, feed)
    for item, two in zip(mine, theirs_outputs):
        if not isinstance(two, np.ndarray):
            assert item == two
            continue
        assert item.dtype == two.dtype
        assert item.shape == two.shape
        if two.dtype.kind == "f":
            np.testing.assert_allclose(item, two, rtol=2e-4, atol=2e-5)
        else:
            assert item.tolist() == two.tolist()
    return mine


def grown(
    random: Any, trees: int, depth: int, features: int, modes: Sequence[str], threshold: Any, targets: Any, weight: Any
) -> Dict[str, List[Any]]:
    """Return the attributes of a TreeEnsembleRegressor with random trees.

    `targets(tree)`: the targets of each leaf. `threshold()` and `weight()`: draw a number.
    """
    keys = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true".split()
    attributes_of_nodes: Dict[str, List[Any]] = {"nodes_" + key: [] for key in keys}
    attributes_of_nodes.update({"target_" + key: [] for key in ("treeids", "nodeids", "ids", "weights")})

    def grow(tree: int, levels: int, rows: List[Any]) -> int:
        row_index = len(rows)
        rows.append([tree, row_index, 0, 0.0, "LEAF", 0, 0, 0])
        if levels == 0 or (levels < depth and random.rand() < 0.25):
            for target in targets(tree):
                for key, item in zip(("treeids", "nodeids", "ids"), (tree, row_index, target)):
                    attributes_of_nodes["target_" + key].append(int(item))
                attributes_of_nodes["target_weights"].append(float(weight()))
            return row_index
        yes, no = grow(tree, levels - 1, rows), grow(tree, levels - 1, rows)
        mode = modes[random.randint(len(modes))]
        tracks = int(random.rand() < 0.5)
        rows[row_index] = [tree, row_index, int(random.randint(features)), float(threshold()), mode, yes, no, tracks]
        return row_index

    for tree in range(trees):
        rows: List[Any] = []
        grow(tree, depth, rows)
        for row in rows:
            for key, item in zip(keys, row):
                attributes_of_nodes["nodes_" + key].append(item)
    return attributes_of_nodes

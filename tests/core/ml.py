"""One operator of ai.onnx.ml in a model, run by onnxruntime and by the shim under test, on a batch of unknown size."""

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
    """`ports`: arrays or types of the inputs; `outputs`: element types, or types."""
    names = ["x%d" % k for k in range(len(ports))]
    results = ["y%d" % k for k in range(len(outputs))]
    one = helper.make_node(operator, names, results, domain=ML, **attributes)
    declared = [
        helper.make_tensor_value_info(name, kind, None) if isinstance(kind, int) else _port(name, kind)
        for name, kind in zip(results, outputs)
    ]
    graph = helper.make_graph([one], "graph", [_port(n, port) for n, port in zip(names, ports)], declared)
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
    """Both give the same: numbers within a few roundings, all else exactly. Gives the results."""
    model = proto(operator, version, types or inputs, outputs, attributes)
    feed = {"x%d" % k: one for k, one in enumerate(inputs)}
    mine, other = ours(model, feed), theirs(model, feed)
    for one, two in zip(mine, other):
        if not isinstance(two, np.ndarray):
            assert one == two
            continue
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        if two.dtype.kind == "f":
            np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)
        else:
            assert one.tolist() == two.tolist()
    return mine


def grown(
    random: Any, trees: int, depth: int, features: int, modes: Sequence[str], threshold: Any, targets: Any, weight: Any
) -> Dict[str, List[Any]]:
    """Random trees, as the attributes of a regressor (`target_*`). `targets(tree)`: what a leaf has weights for."""
    keys = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true".split()
    made: Dict[str, List[Any]] = {"nodes_" + key: [] for key in keys}
    made.update({"target_" + key: [] for key in ("treeids", "nodeids", "ids", "weights")})

    def grow(tree: int, levels: int, rows: List[Any]) -> int:
        place = len(rows)
        rows.append([tree, place, 0, 0.0, "LEAF", 0, 0, 0])
        if levels == 0 or (levels < depth and random.rand() < 0.25):
            for target in targets(tree):
                for key, one in zip(("treeids", "nodeids", "ids"), (tree, place, target)):
                    made["target_" + key].append(int(one))
                made["target_weights"].append(float(weight()))
            return place
        yes, no = grow(tree, levels - 1, rows), grow(tree, levels - 1, rows)
        mode = modes[random.randint(len(modes))]
        tracks = int(random.rand() < 0.5)
        rows[place] = [tree, place, int(random.randint(features)), float(threshold()), mode, yes, no, tracks]
        return place

    for tree in range(trees):
        rows: List[Any] = []
        grow(tree, depth, rows)
        for row in rows:
            for key, one in zip(keys, row):
                made["nodes_" + key].append(one)
    return made

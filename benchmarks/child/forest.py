"""Write a model of complete decision trees with random splits."""

from typing import Any, Dict


def write(path: str, trees: int, depth: int, features: int) -> None:
    """Write an ONNX model to `path`: a TreeEnsembleRegressor over a batch of rows, with complete trees of this depth.

    The splits are random, and the same in each call.
    """
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    random = np.random.RandomState(0)
    nodes = 2 ** (depth + 1) - 1
    inner = 2**depth - 1
    attributes: Dict[str, Any] = {
        "nodes_treeids": np.repeat(np.arange(trees), nodes).tolist(),
        "nodes_nodeids": list(range(nodes)) * trees,
        "nodes_featureids": random.randint(features, size=nodes * trees).tolist(),
        "nodes_values": random.standard_normal(nodes * trees).tolist(),
        "nodes_modes": (["BRANCH_LEQ"] * inner + ["LEAF"] * (nodes - inner)) * trees,
        "nodes_truenodeids": ([2 * k + 1 for k in range(inner)] + [0] * (nodes - inner)) * trees,
        "nodes_falsenodeids": ([2 * k + 2 for k in range(inner)] + [0] * (nodes - inner)) * trees,
        "target_treeids": np.repeat(np.arange(trees), nodes - inner).tolist(),
        "target_nodeids": list(range(inner, nodes)) * trees,
        "target_ids": [0] * ((nodes - inner) * trees),
        "target_weights": random.standard_normal((nodes - inner) * trees).tolist(),
    }
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", features])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1])
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(helper.make_graph([node], "trees", [x], [y]), opset_imports=opsets, ir_version=8), path)

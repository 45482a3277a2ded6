"""Training graphs: the model whose facts hold for their nodes."""

from typing import TYPE_CHECKING, Tuple

from onnx_compat.model.protos import walk

if TYPE_CHECKING:
    import onnx

__all__ = ["model_of_training"]


def model_of_training(model: "onnx.ModelProto", number: int) -> "Tuple[onnx.ModelProto, int]":
    """Return (model that computes a training graph, number of nodes in it before those of the training graph).

    `number`: 0 and 1 for the initialization and the algorithm of the first entry of `training_info`, 2 and 3 for those
    of the next entry. The model of an initialization has no other nodes. The model of an algorithm has the nodes of the
    main graph first, as onnx.proto defines it.
    """
    import onnx

    info = model.training_info[number // 2]
    combined = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    combined.graph.name = "training"
    count = 0
    if number % 2:
        for name in ("node", "input", "initializer", "sparse_initializer", "value_info"):
            getattr(combined.graph, name).extend(getattr(model.graph, name))
        count = sum(1 for _ in walk(model.graph.node))
    part = info.algorithm if number % 2 else info.initialization
    for name in ("node", "input", "initializer", "sparse_initializer", "value_info", "output"):
        getattr(combined.graph, name).extend(getattr(part, name))
    return combined, count

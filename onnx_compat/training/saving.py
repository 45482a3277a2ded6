"""Write a training model with new states, with or without its training information."""

from typing import TYPE_CHECKING, List, Mapping

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.model.protos import walk
from onnx_compat.training.tensors import stored_tensor
from onnx_compat.training.training_info import METADATA, TrainingInfo

if TYPE_CHECKING:
    import onnx

__all__ = ["inference_model", "training_model"]


def training_model(info: TrainingInfo, states: Mapping[str, np.ndarray]) -> bytes:
    """Return the model with `states` as its initializers, as the bytes of an ONNX file.

    Raises UnsupportedError if the model is larger than a protobuf message can be.
    """
    model = _copy(info.model)
    _store(model.graph, states)
    for entry in model.training_info:
        _store(entry.algorithm, states)
    return _serialise(model)


def inference_model(info: TrainingInfo, states: Mapping[str, np.ndarray]) -> bytes:
    """Return the main graph with `states` as its initializers, as the bytes of an ONNX file.

    Training information, its metadata and the operator sets that only its graphs use are left out. Raises
    UnsupportedError if the model is larger than a protobuf message can be.
    """
    model = _copy(info.model)
    del model.training_info[:]
    _store(model.graph, states)
    kept: List[onnx.StringStringEntryProto] = [entry for entry in model.metadata_props if entry.key != METADATA]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    used = {node.domain for node in walk(model.graph.node)} | {function.domain for function in model.functions}
    opsets = [
        entry for entry in model.opset_import if not entry.domain.startswith("ai.onnx.preview") or entry.domain in used
    ]
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    return _serialise(model)


def _copy(model: "onnx.ModelProto") -> "onnx.ModelProto":
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def _store(graph: "onnx.GraphProto", states: Mapping[str, np.ndarray]) -> None:
    """Replace the initializers of a graph that are states, in place."""
    for tensor in graph.initializer:
        if tensor.name in states:
            tensor.CopyFrom(stored_tensor(tensor.name, states[tensor.name], tensor.data_type))


def _serialise(model: "onnx.ModelProto") -> bytes:
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # protobuf's own errors differ between its versions
        raise UnsupportedError(
            "the model cannot be written: %s" % error, hint="an ONNX file holds less than 2 GB; save a checkpoint"
        ) from error

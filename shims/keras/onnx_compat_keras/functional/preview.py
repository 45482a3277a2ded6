"""List the layers and operations of a functional Keras model, in total and for each ONNX node."""

import re
from collections import Counter
from typing import Any, Dict, Tuple

import keras

from onnx_compat.shim import Preview
from onnx_compat_keras.framework_types import KerasModel
from onnx_compat_keras.functional.names import Names

__all__ = ["operation_name", "preview_model"]


def operation_name(operation: Any) -> str:
    """Return the public name of the class of a layer or operation: "keras.layers.Conv2D", "keras.ops.get_item".

    An operation that keras.ops has under no such name keeps the name of its class: "keras.ops.GetItem".
    """
    name = type(operation).__name__
    if isinstance(operation, keras.layers.Layer):
        return "keras.layers." + name
    function = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return "keras.ops." + (function if hasattr(keras.ops, function) else name)


def preview_model(model: KerasModel, names: Names) -> Preview:
    """Return a `Preview` of a model: its layers and operations without the inputs, in total and for each ONNX node.

    `names`: the names that the emitter of the model has used. Operations in the body of a branch or loop are listed for
    their nodes, but not in total. Operations of the model that no output needs are left out.
    """
    operations = [item for item in model.operations if not isinstance(item, keras.layers.InputLayer)]
    used = {id(operation) for operation in operations}
    nodes: Dict[str, Tuple[str, ...]] = {}
    for is_inner in (False, True):
        outer_nodes = set(nodes)
        for key, owner in names.owners.items():
            if (key not in used) is is_inner and owner not in outer_nodes:
                nodes[owner] = (*nodes.get(owner, ()), operation_name(names.operations[key]))
    return Preview(dict(Counter(map(operation_name, operations))), nodes)

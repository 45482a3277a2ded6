"""Inputs of a trained network from a package."""

from typing import Any, Dict

import numpy as np

__all__ = ["generate_inputs"]


def generate_inputs(model: str, shapes: Any, values: Any, fed_shapes: Any, ranges: Any) -> Dict[str, Any]:
    """Return generated inputs by name, the same in every run. An input in `values` has its fixed value.

    `fed_shapes`: input -> its shape, where the converted file has symbolic sizes. `ranges`: input -> [low, high) of its
    values.
    """
    import onnx_compat
    from onnx_compat.conversion.input_fixing import fix_inputs
    from onnx_compat.verification.generate import generate

    static_model = fix_inputs(onnx_compat.load(model), {**shapes, **fed_shapes}, values)
    feeds = generate(static_model.inputs)
    random = np.random.RandomState(0)
    for name, (low, high) in ranges.items():
        is_integer = feeds[name].dtype.kind in "iu"
        sample = (random.randint if is_integer else random.uniform)(low, high, feeds[name].shape)
        feeds[name] = np.asarray(sample).astype(feeds[name].dtype)
    feeds.update((name, static_model.graph.initializers[name].array()) for name in values)
    return feeds

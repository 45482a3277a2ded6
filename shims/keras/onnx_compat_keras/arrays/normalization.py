"""Normalisations as one operation: what a framework's own layers do, over the primitives of any emitter."""

from typing import Any, Sequence

import numpy as np

from onnx_compat.shim import native

__all__ = ["Normalization", "alone"]


def _frozen(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """Inference, with parameters that are known."""
    training = attributes.get("training_mode", 0) or not attributes.get("spatial", 1)
    return not training and len(node.outputs) == 1 and all(p is not None and p.known for p in inputs[1:5])


def _last_axis(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """Over the last axis alone, in the type of the input itself, with parameters that are known."""
    x = inputs[0]
    return (
        attributes.get("axis", -1) in (-1, x.rank - 1)
        and x.dtype.name in ("float32", "float64")
        and len(node.outputs) == 1
        and all(p is None or (p.known and p.rank == 1 and p.shape[0] == x.shape[-1]) for p in inputs[1:3])
    )


def alone(node: Any, result: Any) -> Any:
    """The first result of a node of whose others nobody needs one."""
    return (result,) + (None,) * (len(node.outputs) - 1)


class Normalization:
    """BatchNormalization and LayerNormalization."""

    node: Any
    array: Any
    add: Any
    sub: Any
    mul: Any
    div: Any
    sqrt: Any
    reduce_mean: Any
    constant: Any

    @native("BatchNormalization", _frozen, spatial=True)
    def batch_normalization(
        self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5, **_: Any
    ) -> Any:
        """The channels are the last axis of an image, the second (and last) of a matrix."""
        dtype = self.node.args[1].spec.dtype
        scale, bias, mean, var = [np.asarray(arg.array, np.float64) for arg in self.node.args[1:5]]
        factor = scale / np.sqrt(var + epsilon)
        x = self.mul(x, self.constant(factor.astype(dtype.numpy), dtype))
        return self.add(x, self.constant((bias - mean * factor).astype(dtype.numpy), dtype))

    @native("LayerNormalization", _last_axis)
    def layer_normalization(
        self, x: Any, scale: Any = None, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, **_: Any
    ) -> Any:
        dtype = self.node.outputs[0].spec.dtype
        last = (self.node.outputs[0].spec.rank - 1,)
        centred = self.sub(x, self.reduce_mean(x, last, True))
        variance = self.reduce_mean(self.mul(centred, centred), last, True)
        spread = self.sqrt(self.add(variance, self.constant(np.asarray(epsilon, dtype.numpy), dtype)))
        x = self.div(centred, spread)
        if scale is not None:
            x = self.mul(x, scale)
        return alone(self.node, x if bias is None else self.add(x, bias))

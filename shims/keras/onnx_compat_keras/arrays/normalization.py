"""Native BatchNormalization and LayerNormalization, composed of the primitives of any emitter.

They are native because Keras has layers for both operators, which functional models use.
"""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import GraphNode, Node, native
from onnx_compat_keras.framework_types import Array, Attributes

__all__ = ["Normalization", "first_result_only"]


def _is_frozen(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a BatchNormalization has one output, and known scale, bias, mean and variance.

    Returns False if `training_mode` is not 0, or if the attribute `spatial` of the first opsets is 0.
    """
    training = attributes.get("training_mode", 0) or not attributes.get("spatial", 1)
    return not training and len(node.outputs) == 1 and all(p is not None and p.known for p in inputs[1:5])


def _is_over_last_axis(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a LayerNormalization is over the last axis only, in float32 or float64, with one output.

    Scale and bias must each be absent, or a known vector of the length of the last axis.
    """
    x = inputs[0]
    return (
        attributes.get("axis", -1) in (-1, x.rank - 1)
        and x.dtype.name in ("float32", "float64")
        and len(node.outputs) == 1
        and all(p is None or (p.known and p.rank == 1 and p.shape[0] == x.shape[-1]) for p in inputs[1:3])
    )


def first_result_only(node: Node, result: Array) -> Tuple[Array, ...]:
    """Return (result, None, ...), with an entry for each output of the node. Only the first output is read."""
    return (result,) + (None,) * (len(node.outputs) - 1)


class Normalization:
    """Native emitter methods of BatchNormalization and LayerNormalization."""

    node: Any
    array: Any
    add: Any
    sub: Any
    mul: Any
    div: Any
    sqrt: Any
    reduce_mean: Any
    constant: Any

    @native("BatchNormalization", _is_frozen, spatial=True)
    def batch_normalization(
        self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float = 1e-5, **_: object
    ) -> Array:
        """Return x * factor + shift: factor = scale / sqrt(var + epsilon), shift = bias - mean * factor.

        The factor and the shift are constants. They are computed in float64 from the arguments of the node, and rounded
        to the dtype of `scale`. The channels are the last axis of x.
        """
        dtype = self.node.args[1].spec.dtype
        scale, bias, mean, var = [np.asarray(arg.array, np.float64) for arg in self.node.args[1:5]]
        factor = scale / np.sqrt(var + epsilon)
        x = self.mul(x, self.constant(factor.astype(dtype.numpy), dtype))
        return self.add(x, self.constant((bias - mean * factor).astype(dtype.numpy), dtype))

    @native("LayerNormalization", _is_over_last_axis)
    def layer_normalization(
        self,
        x: Array,
        scale: Optional[Array] = None,
        bias: Optional[Array] = None,
        axis: int = -1,
        epsilon: float = 1e-5,
        **_: object,
    ) -> Tuple[Array, ...]:
        dtype = self.node.outputs[0].spec.dtype
        last = (self.node.outputs[0].spec.rank - 1,)
        centred = self.sub(x, self.reduce_mean(x, last, True))
        variance = self.reduce_mean(self.mul(centred, centred), last, True)
        spread = self.sqrt(self.add(variance, self.constant(np.asarray(epsilon, dtype.numpy), dtype)))
        x = self.div(centred, spread)
        if scale is not None:
            x = self.mul(x, scale)
        return first_result_only(self.node, x if bias is None else self.add(x, bias))

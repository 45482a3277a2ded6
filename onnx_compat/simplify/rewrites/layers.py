"""Layers with constant weights, into which scales and shifts of their output channels are folded."""

from typing import Dict, Optional, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.passes.channels import channel_vector, scale_channels
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode

__all__ = ["ChannelLayer", "find_layer", "has_digits", "normalization_factors"]

#: The operators of layers.
_LAYERS = frozenset(["BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul"])


class ChannelLayer:
    """A node that computes channels with constant weights.

    - node: a Conv, ConvTranspose, Gemm, BatchNormalization or MatMul.
    - weights, dtype: the carrier array of its weights, and their type.
    - rank: the rank of its result.
    - axis, channels: the axis of the result with the output channels, and the number of these channels.
    - groups: the number of groups of a ConvTranspose; 1 for any other operator.
    """

    def __init__(self, node: DraftNode, weights: np.ndarray, dtype: DType, rank: int) -> None:
        self.node = node
        self.weights = weights
        self.dtype = dtype
        self.rank = rank
        self.axis = rank - 1 if node.operator == "MatMul" else 1
        self.groups = int(node.attribute("group", 1)) if node.operator == "ConvTranspose" else 1
        self.channels = int(weights.shape[self._weight_axis]) * self.groups

    @property
    def output(self) -> str:
        """The name of the result."""
        return self.node.outputs[0]

    @property
    def _weight_axis(self) -> int:
        """The axis of the weights with the output channels; of a ConvTranspose, with those of a group."""
        if self.node.operator == "Gemm":
            return 0 if self.node.attribute("transB", 0) else 1
        return 1 if self.node.operator in ("ConvTranspose", "MatMul") else 0

    def fold(self, draft: GraphDraft, scale: Optional[np.ndarray], shift: Optional[np.ndarray]) -> bool:
        """Fold a scale, then a shift, of the channels into the weights and the bias. Return whether they were folded.

        `scale` and `shift` are vectors of float64, with a number for each channel; None: no scale, or no shift.

        Return False, and change nothing, in these cases:

        - The bias is not constant, or has neither one number nor one for each channel.
        - There is a shift for a MatMul, which has no bias, or a Gemm has a `beta` of 0.
        - A new number is not finite or loses its digits in the dtype, or the size budget does not suffice.
        """
        if self.node.operator == "MatMul" and shift is not None:
            return False
        replaced: Dict[int, np.ndarray] = {}
        if scale is not None:
            replaced[1] = self._scaled_weights(scale)
        if self.node.operator != "MatMul":
            bias = self._bias(draft)
            if bias is None:
                return False
            beta = float(self.node.attribute("beta", 1.0)) if self.node.operator == "Gemm" else 1.0
            if not beta:
                return False
            bias = bias * (1.0 if scale is None else scale) + (0.0 if shift is None else shift / beta)
            if self.node.input(2) or bias.any():
                replaced[2] = bias
        with np.errstate(over="ignore"):
            arrays = {index: self.dtype.round(array) for index, array in replaced.items()}
        if not all(has_digits(replaced[index], array) for index, array in arrays.items()):
            return False
        inputs = [*self.node.inputs, "", ""]
        if not all(draft.affords(array, self.dtype, inputs[index]) for index, array in arrays.items()):
            return False
        for index, array in arrays.items():
            inputs[index] = draft.replace_constant(self.node, inputs[index], array, self.dtype, self.output + "_bias")
        draft.set_inputs(self.node, inputs)
        return True

    def _scaled_weights(self, scale: np.ndarray) -> np.ndarray:
        weights = self.weights.astype(np.float64)
        if self.node.operator != "ConvTranspose":
            return scale_channels(weights, scale, self._weight_axis)
        grouped = weights.reshape((self.groups, -1, *weights.shape[1:]))  # [groups, C / groups, M / groups, ...]
        scaled: np.ndarray = grouped * scale.reshape((self.groups, 1, -1) + (1,) * (weights.ndim - 2))
        return scaled.reshape(weights.shape)

    def _bias(self, draft: GraphDraft) -> Optional[np.ndarray]:
        """Return the bias of each channel as float64: zeros without a bias.

        None: the bias is not constant, or has neither one number nor one for each channel.
        """
        if not self.node.input(2):
            return np.zeros(self.channels)
        array = draft.constant(self.node.input(2))
        rank = 2 if self.node.operator == "Gemm" else 1
        vector = None if array is None else channel_vector(array, rank - 1, rank, self.channels)
        return None if vector is None else np.broadcast_to(vector.astype(np.float64), (self.channels,))


def has_digits(exact: np.ndarray, rounded: np.ndarray) -> bool:
    """Whether all rounded numbers are finite, and no number that matters has lost its digits by underflow.

    A number below 2^-24 times the largest one does not matter: trained layers have weights that are nearly 0.
    """
    if not np.isfinite(rounded).all():
        return False
    magnitude = np.abs(exact)
    has_lost = np.abs(rounded.astype(np.float64) - exact) > magnitude / 64
    return not (has_lost & (magnitude > 2.0**-24 * magnitude.max(initial=0))).any()


def find_layer(draft: GraphDraft, name: str, reader: DraftNode) -> Optional[ChannelLayer]:
    """Return the layer with constant float weights that computes the value `name`.

    None: there is no such layer, or its rank is not known, or not only the node `reader` reads the value.
    """
    node = draft.producer(name)
    if node is None or node.operator not in _LAYERS or draft.only_reader(name) is not reader:
        return None
    weights, spec = draft.constant(node.input(1)), draft.spec(node.input(1))
    rank = _rank(draft, node, weights)
    if weights is None or spec is None or rank is None or spec.dtype.kind != "f" or node.outputs[0] != name:
        return None
    if node.operator == "MatMul" and weights.ndim != 2:
        return None
    if node.operator == "BatchNormalization" and not _is_inference(draft, node):
        return None
    return ChannelLayer(node, weights, spec.dtype, rank)


def _rank(draft: GraphDraft, node: DraftNode, weights: Optional[np.ndarray]) -> Optional[int]:
    """Return the rank of a layer's result; None if it is not known."""
    if node.operator in ("Conv", "ConvTranspose", "Gemm"):
        return None if weights is None else weights.ndim
    spec = draft.spec(node.outputs[0])
    return None if spec is None or spec.rank < 2 else spec.rank


def _is_inference(draft: GraphDraft, node: DraftNode) -> bool:
    """Whether a BatchNormalization has constant statistics for each channel, and only its first result is read."""
    return normalization_factors(draft, node) is not None


def normalization_factors(draft: GraphDraft, node: DraftNode) -> Optional[Tuple[np.ndarray, np.ndarray]]:
    """Return (scale, shift) of each channel of a BatchNormalization, as vectors of float64.

    Return None in these cases:

    - The node is training, has statistics for each element, or has another result that is read.
    - The scale, the bias or a statistic is no initializer.
    """
    is_training = node.attribute("training_mode", 0) or (draft.opset < 7 and not node.attribute("is_test", 0))
    if (
        is_training
        or not node.attribute("spatial", 1)
        or any(name and draft.is_read(name) for name in node.outputs[1:])
    ):
        return None
    arrays = [draft.constant(name) for name in node.inputs[1:5]]
    if len(arrays) < 4 or any(array is None for array in arrays):
        return None
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    factor = scale / np.sqrt(variance + node.attribute("epsilon", 1e-5))
    return factor, shift - mean * factor

"""Recognise a standard LSTM, GRU or RNN: the cases that the fused kernels and layers of frameworks compute."""

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.tracing.values import Tensor

__all__ = ["StandardRecurrent", "activations", "directions", "standard_recurrent"]

#: The activations that fused kernels know for one direction; the first entry is ONNX's default.
_ACTIVATIONS = {"LSTM": (("sigmoid", "tanh", "tanh"),), "GRU": (("sigmoid", "tanh"),), "RNN": (("tanh",), ("relu",))}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
#: Attributes that change the gates or the order of axes; a fused kernel has none of them.
_UNUSUAL = ("activation_alpha", "activation_beta", "input_forget", "layout")


class StandardRecurrent(NamedTuple):
    """The inputs and activations of an LSTM, GRU or RNN node that fused kernels can compute.

    Such a node reads whole sequences, without clipping. `x`, `w`, `r`, `bias` and `peepholes` are inputs of the node;
    `bias` and `peepholes` may be None. The initial states are not included.
    """

    #: For each direction, whether it reads the sequence backwards.
    backwards: Tuple[bool, ...]
    #: For each direction, the activations in lower case.
    activations: Tuple[Tuple[str, ...], ...]
    x: Tensor
    w: Tensor
    r: Tensor
    bias: Optional[Tensor]
    peepholes: Optional[Tensor]

    @property
    def weights(self) -> Tuple[Tensor, ...]:
        """The tensors `w`, `r` and, if present, `bias`. The peepholes are not included."""
        return tuple(tensor for tensor in (self.w, self.r, self.bias) if tensor is not None)

    @property
    def has_known_weights(self) -> bool:
        """Whether all weights, the bias and the peepholes are known while tracing. Omitted tensors count as known."""
        return all(tensor.known for tensor in (*self.weights, self.peepholes) if tensor is not None)

    @property
    def is_uniform(self) -> bool:
        """Whether all directions have the same activations."""
        return len(set(self.activations)) == 1


def directions(attributes: Mapping[str, Any]) -> Tuple[bool, ...]:
    """Return for each direction whether it reads the sequence backwards.

    The attribute `direction` decides: "forward", the default -> (False,), "reverse" -> (True,),
    "bidirectional" -> (False, True). Raises KeyError for any other value.
    """
    return _DIRECTIONS[attributes.get("direction", "forward")]


def activations(operator: str, attributes: Mapping[str, Any]) -> Tuple[Tuple[str, ...], ...]:
    """Return the activations of each direction, in lower case: a GRU of one direction -> (("sigmoid", "tanh"),).

    Without the attribute `activations`, the names are ONNX's defaults. `operator`: "LSTM", "GRU" or "RNN". Surplus
    names are dropped: ONNX's default for an RNN of one direction lists two. Raises KeyError for an unknown direction.
    """
    default = _ACTIVATIONS[operator][0]
    count, size = len(directions(attributes)), len(default)
    names = tuple(str(name).lower() for name in attributes.get("activations") or default * count)
    return tuple(names[k * size : (k + 1) * size] for k in range(count))


def standard_recurrent(
    operator: str, inputs: Sequence[Optional[Tensor]], attributes: Mapping[str, Any]
) -> Optional[StandardRecurrent]:
    """Return the inputs and activations of an LSTM, GRU or RNN node. Return None if no fused kernel can compute it.

    `inputs` are in ONNX's order; an omitted input is None. None is returned in these cases:

    - The node has the input sequence_lens or the attribute `clip`, or lacks x, w or r.
    - The attribute activation_alpha, activation_beta, input_forget or layout is present, and neither empty nor 0.
    - The direction is unknown, or fused kernels lack the activations of a direction.

    A kernel may decline further nodes, for a dtype, weights that are computed at run time, peepholes or mixed
    activations.
    """
    x, w, r, bias, lengths, _, _, peepholes = (*inputs, *[None] * 8)[:8]
    if x is None or w is None or r is None or lengths is not None:
        return None
    if attributes.get("direction", "forward") not in _DIRECTIONS or attributes.get("clip") is not None:
        return None
    if any(attributes.get(name) for name in _UNUSUAL):
        return None
    names = activations(operator, attributes)
    if any(group not in _ACTIVATIONS[operator] for group in names):
        return None
    return StandardRecurrent(directions(attributes), names, x, w, r, bias, peepholes)

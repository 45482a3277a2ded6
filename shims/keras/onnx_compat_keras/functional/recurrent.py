"""Emit native LSTM, GRU and RNN as Keras layers: permute the gates, time and batch axes, and join the directions."""

from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import directions
from onnx_compat_keras.arrays.recurrent import uses_relu
from onnx_compat_keras.framework_types import Attributes, Handle
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Recurrent"]

#: Layer -> for each gate of Keras, its index in ONNX: LSTM is iofc in ONNX and ifco in Keras, GRU is zrh in both.
_GATES = {"LSTM": [0, 2, 3, 1], "GRU": [0, 1, 2], "SimpleRNN": [0]}


class Recurrent(Base):
    """Native emitter methods of LSTM, GRU and RNN. `onnx_compat_keras.arrays.recurrent` decides when they are used."""

    def lstm(self, *args: Optional[Handle], **attributes: Any) -> Tuple[Handle, ...]:
        return self._layer_sequence("LSTM", args, attributes, 2, {})

    def gru(self, *args: Optional[Handle], **attributes: Any) -> Tuple[Handle, ...]:
        after = bool(attributes.get("linear_before_reset", 0))
        return self._layer_sequence("GRU", args, attributes, 1, {"reset_after": after})

    def rnn(self, *args: Optional[Handle], **attributes: Any) -> Tuple[Handle, ...]:
        activation = "relu" if uses_relu(attributes) else "tanh"
        return self._layer_sequence("SimpleRNN", args, attributes, 1, {"activation": activation})

    def _layer_sequence(
        self,
        kind: str,
        args: Sequence[Handle],
        attributes: Attributes,
        states: int,
        options: Mapping[str, Any],
    ) -> Tuple[Handle, ...]:
        """Return the results of a recurrent node, computed by a Keras layer for each direction.

        kind: the class of the layer: "LSTM", "GRU" or "SimpleRNN".
        args: the inputs of the ONNX operator; trailing ones may be missing.
        states: the number of states of the layer: 2 for LSTM, else 1.
        options: further arguments of the layer.
        """
        arguments = dict(enumerate(args))
        x = self.ops.transpose(self.tensor(args[0]), (1, 0, 2))
        hidden = args[2].array.shape[2]
        whole: List[Handle] = []
        last: List[List[Handle]] = [[] for _ in range(states)]
        for k, backwards in enumerate(directions(attributes)):
            weights = _weights(kind, args[1].array[k], args[2].array[k], arguments.get(3), k, hidden, options)
            initial = [self._initial(arguments.get(5 + n), k) for n in range(states)]
            if any(state is not None for state in initial):
                initial = [self._zeros(x, hidden) if state is None else state for state in initial]
                call = {"initial_state": initial}
            else:
                call = {}
            ys, *finals = self.layer(
                kind, x, weights=weights, call=call, units=hidden, return_sequences=True, return_state=True,
                go_backwards=backwards, kernel_initializer="zeros", recurrent_initializer="zeros", **options,
            )  # fmt: skip
            ys = self.ops.transpose(self.ops.flip(ys, 1) if backwards else ys, (1, 0, 2))
            whole.append(self.ops.expand_dims(ys, 1))
            for n in range(states):
                last[n].append(self.ops.expand_dims(finals[n], 0))
        results = [self._concat_parts(whole, 1)] + [self._concat_parts(parts, 0) for parts in last]
        return tuple(results[: len(self.node.outputs)])

    def _concat_parts(self, parts: List[Handle], axis: int) -> Handle:
        return parts[0] if len(parts) == 1 else self.ops.concatenate(parts, axis=axis)

    def _initial(self, states: Handle, direction: int) -> Handle:
        """Return the initial state [batch, hidden] of a direction from `states`, which is [directions, batch, hidden].

        Returns None if there are no `states`, or if they are a constant of zeros. The layer then begins with zeros.
        """
        if states is None or (isinstance(states, Known) and not states.array.any()):
            return None
        return cut(self.ops, self.tensor(states), (direction,))

    def _zeros(self, x: Handle, hidden: int) -> Handle:
        """Return zeros of the shape [batch, hidden] for sequences x of the shape [batch, time, features]."""
        zeros = self.ops.sum(self.ops.zeros_like(x), axis=(1, 2))
        return self.ops.tile(self.ops.expand_dims(zeros, -1), (1, hidden))


def _weights(
    kind: str, w: np.ndarray, r: np.ndarray, b: Optional[Known], direction: int, hidden: int, options: Mapping[str, Any]
) -> Tuple[np.ndarray, ...]:
    """Return (kernel, recurrent kernel, bias) of a Keras layer for one direction: gates reordered, matrices transposed.

    `w` and `r` are ONNX's matrices of this direction, [gates * hidden, ...]. `b` has the two biases of ONNX for all
    directions, or may be None for zeros. The bias of Keras is the sum of the two biases. For a GRU with the option
    reset_after, it is the two biases, stacked.
    """
    order = _GATES[kind]

    def gates(array: np.ndarray) -> np.ndarray:
        parts = [array[k * hidden : (k + 1) * hidden] for k in order]
        return np.concatenate(parts, 0)

    size = len(order) * hidden
    bias = np.zeros(2 * size, w.dtype) if b is None else b.array[direction]
    first, second = gates(bias[:size]), gates(bias[size:])
    shift = np.stack([first, second]) if options.get("reset_after") else first + second
    return np.ascontiguousarray(gates(w).T), np.ascontiguousarray(gates(r).T), shift

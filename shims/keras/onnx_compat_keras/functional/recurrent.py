"""LSTM, GRU and RNN as layers. ONNX has the gates in another order, the time first, and directions side by side."""

from typing import Any, List, Sequence, Tuple

import numpy as np

from onnx_compat.shim import directions
from onnx_compat_keras.arrays.recurrent import uses_relu
from onnx_compat_keras.functional.base import Base, Known
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Recurrent"]

#: Where Keras has each gate: LSTM is iofc in ONNX and ifco in Keras, GRU zrh in both.
_GATES = {"LSTM": [0, 2, 3, 1], "GRU": [0, 1, 2], "SimpleRNN": [0]}


class Recurrent(Base):
    """The fast paths of `onnx_compat_keras.arrays.recurrent`, as layers."""

    def lstm(self, *args: Any, **attributes: Any) -> Any:
        return self._recurrent("LSTM", args, attributes, 2, {})

    def gru(self, *args: Any, **attributes: Any) -> Any:
        after = bool(attributes.get("linear_before_reset", 0))
        return self._recurrent("GRU", args, attributes, 1, {"reset_after": after})

    def rnn(self, *args: Any, **attributes: Any) -> Any:
        activation = "relu" if uses_relu(attributes) else "tanh"
        return self._recurrent("SimpleRNN", args, attributes, 1, {"activation": activation})

    def _recurrent(self, kind: str, args: Sequence[Any], attributes: Any, states: int, options: Any) -> Any:
        given = dict(enumerate(args))
        x = self.ops.transpose(self.tensor(args[0]), (1, 0, 2))
        hidden = args[2].array.shape[2]
        whole: List[Any] = []
        last: List[List[Any]] = [[] for _ in range(states)]
        for k, backwards in enumerate(directions(attributes)):
            weights = _weights(kind, args[1].array[k], args[2].array[k], given.get(3), k, hidden, options)
            initial = [self._initial(given.get(5 + n), k) for n in range(states)]
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
        results = [self._joined(whole, 1)] + [self._joined(parts, 0) for parts in last]
        return tuple(results[: len(self.node.outputs)])

    def _joined(self, parts: List[Any], axis: int) -> Any:
        return parts[0] if len(parts) == 1 else self.ops.concatenate(parts, axis=axis)

    def _initial(self, given: Any, direction: int) -> Any:
        if given is None or (isinstance(given, Known) and not given.array.any()):
            return None
        return cut(self.ops, self.tensor(given), (direction,))

    def _zeros(self, x: Any, hidden: int) -> Any:
        """Zeros for each sequence of a batch."""
        none = self.ops.sum(self.ops.zeros_like(x), axis=(1, 2))
        return self.ops.tile(self.ops.expand_dims(none, -1), (1, hidden))


def _weights(
    kind: str, w: np.ndarray, r: np.ndarray, b: Any, direction: int, hidden: int, options: Any
) -> Tuple[np.ndarray, ...]:
    """ONNX's weights of one direction as the layer has them."""
    order = _GATES[kind]

    def gates(array: np.ndarray) -> np.ndarray:
        parts = [array[k * hidden : (k + 1) * hidden] for k in order]
        return np.concatenate(parts, 0)

    size = len(order) * hidden
    bias = np.zeros(2 * size, w.dtype) if b is None else b.array[direction]
    first, second = gates(bias[:size]), gates(bias[size:])
    shift = np.stack([first, second]) if options.get("reset_after") else first + second
    return np.ascontiguousarray(gates(w).T), np.ascontiguousarray(gates(r).T), shift

"""Native LSTM, GRU and RNN, for the options that Keras layers support. Functional models use these layers."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import DType, GraphNode, directions, native, standard_recurrent
from onnx_compat_keras.framework_types import Array, Attributes

__all__ = ["Recurrent", "uses_relu"]


def _has_keras_layer(node: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether a Keras layer can compute an LSTM, GRU or RNN.

    `standard_recurrent` must accept the node. It must have known weights, float32 or float64, the same activations in
    all directions, and no peepholes.
    """
    layer = standard_recurrent(node.operator, inputs, attributes)
    return (
        layer is not None
        and layer.is_uniform
        and layer.peepholes is None
        and layer.x.dtype.name in ("float32", "float64")
        and layer.has_known_weights
    )


def uses_relu(attributes: Attributes) -> bool:
    """Whether an RNN that `_has_keras_layer` accepts has the activation Relu. Otherwise it has Tanh, the default."""
    return str((attributes.get("activations") or ["tanh"])[0]).lower() == "relu"


class Recurrent:
    """Native emitter methods of LSTM, GRU and RNN: the step of each cell, and the loop over directions and time."""

    node: Any
    xp: Any
    matmul: Any
    add: Any
    sub: Any
    mul: Any
    maximum: Any
    tanh: Any
    sigmoid: Any
    concat: Any
    constant: Any

    def over_time(
        self, step: Callable[..., Tuple[List[Array], List[Array]]], state: List[Array], xs: List[Array], backwards: bool
    ) -> Tuple[List[Array], List[Array]]:
        """Run a loop over the first axis of the arrays `xs`: `state, ys = step(state, [x[index] for x in xs])`.

        Returns (last state, stacked ys). Each stacked y has the values of all indices along a new first axis. Without
        any index, the stacked ys may be [].

        `backwards`: the loop runs from the last index to the first. The stacked values still have the order of `xs`.
        """
        raise NotImplementedError

    def product(self, x: Array, w: Array) -> Array:
        """Return the matrix product of x and the transpose of w."""
        return self.matmul(x, w, transpose_y=True)

    @native("LSTM", _has_keras_layer)
    def lstm(self, *args: Optional[Array], **attributes: Any) -> Tuple[Array, ...]:
        return self._sequence(args, attributes, self._lstm_step, 4, 2)

    @native("GRU", _has_keras_layer)
    def gru(self, *args: Optional[Array], **attributes: Any) -> Tuple[Array, ...]:
        step = self._gru_reset_after if attributes.get("linear_before_reset", 0) else self._gru_step
        return self._sequence(args, attributes, step, 3, 1)

    @native("RNN", _has_keras_layer)
    def rnn(self, *args: Optional[Array], **attributes: Any) -> Tuple[Array, ...]:
        relu = uses_relu(attributes)
        return self._sequence(args, attributes, self._rnn_relu_step if relu else self._rnn_step, 1, 1)

    def _sequence(
        self,
        args: Sequence[Optional[Array]],
        attributes: Dict[str, Any],
        step: Callable[..., List[Array]],
        gates: int,
        states: int,
    ) -> Tuple[Array, ...]:
        """Return the results of a recurrent node: the outputs of all time steps, then the last states.

        args: the inputs of the ONNX operator; trailing ones may be missing.
        step: the method of one time step, such as `_lstm_step`.
        gates: the number of gates of the cell.
        states: the number of states of the cell: 2 for LSTM, else 1.
        """
        node = self.node
        dtype = node.args[0].spec.dtype
        arguments = dict(enumerate(args))
        weights, recurrent = node.args[1].array, node.args[2].array
        biases = node.args[3].array if arguments.get(3) is not None else None
        x, hidden = args[0], recurrent.shape[2]
        whole: List[Array] = []
        last: List[List[Array]] = [[] for _ in range(states)]
        for k, backwards in enumerate(directions(attributes)):
            bias = np.zeros(2 * gates * hidden, dtype.numpy) if biases is None else biases[k]
            w, r = self.constant(weights[k], dtype), self.constant(recurrent[k], dtype)
            wb = self.constant(bias[: gates * hidden], dtype)
            rb = self.constant(bias[gates * hidden :], dtype)
            state = [self._initial(arguments.get(5 + n), k, x, hidden, dtype) for n in range(states)]
            ahead = self.add(self.product(x, w), wb)  # the input's contribution to the gates, for all time steps

            def advance(
                state: List[Array], xs: List[Array], r: Array = r, rb: Array = rb
            ) -> Tuple[List[Array], List[Array]]:
                state = step(xs[0], state, r, rb, hidden)
                return state, [state[0]]

            state, stacked = self.over_time(advance, state, [ahead], backwards)
            ys = stacked[0] if stacked else ahead[:, :, :hidden]  # without a time step, both are [0, batch, hidden]
            whole.append(self.insert_axis(ys, 1))
            for n in range(states):
                last[n].append(self.insert_axis(state[n], 0))
        results = [self._concat_parts(whole, 1)] + [self._concat_parts(parts, 0) for parts in last]
        return tuple(results[: len(node.outputs)])

    def _initial(self, states: Array, direction: int, x: Array, hidden: int, dtype: DType) -> Array:
        if states is not None:
            return states[direction]
        return self.states(x, hidden, dtype)

    def states(self, x: Array, hidden: int, dtype: DType) -> Array:
        """Return an initial state of zeros, [batch, hidden], for a sequence x of shape [time, batch, features]."""
        return self.constant(np.zeros((int(x.shape[1]), hidden), dtype.numpy), dtype)

    def insert_axis(self, x: Array, axis: int) -> Array:
        """Return x with a new axis of length 1 at position `axis`."""
        return self.xp.expand_dims(x, axis)

    def _concat_parts(self, parts: List[Array], axis: int) -> Array:
        return parts[0] if len(parts) == 1 else self.concat(parts, axis)

    # -- the steps. x: the input's contribution to the gates; r, rb: recurrent weights and bias -----------------------
    def _split_gates(self, gates: Array, hidden: int) -> List[Array]:
        return [gates[:, k * hidden : (k + 1) * hidden] for k in range(int(gates.shape[-1]) // hidden)]

    def _lstm_step(self, x: Array, state: List[Array], r: Array, rb: Array, hidden: int) -> List[Array]:
        h, c = state
        i, o, f, g = self._split_gates(self.add(self.add(x, self.product(h, r)), rb), hidden)
        c = self.add(self.mul(self.sigmoid(f), c), self.mul(self.sigmoid(i), self.tanh(g)))
        return [self.mul(self.sigmoid(o), self.tanh(c)), c]

    def _gru_reset_after(self, x: Array, state: List[Array], r: Array, rb: Array, hidden: int) -> List[Array]:
        (h,) = state
        xz, xr, xn = self._split_gates(x, hidden)
        hz, hr, hn = self._split_gates(self.add(self.product(h, r), rb), hidden)
        z = self.sigmoid(self.add(xz, hz))
        n = self.tanh(self.add(xn, self.mul(self.sigmoid(self.add(xr, hr)), hn)))
        return [self.add(n, self.mul(z, self.sub(h, n)))]

    def _gru_step(self, x: Array, state: List[Array], r: Array, rb: Array, hidden: int) -> List[Array]:
        (h,) = state
        xz, xr, xn = self._split_gates(x, hidden)
        hz, hr = self._split_gates(self.add(self.product(h, r[: 2 * hidden]), rb[: 2 * hidden]), hidden)
        z = self.sigmoid(self.add(xz, hz))
        inner = self.product(self.mul(self.sigmoid(self.add(xr, hr)), h), r[2 * hidden :])
        n = self.tanh(self.add(xn, self.add(inner, rb[2 * hidden :])))
        return [self.add(n, self.mul(z, self.sub(h, n)))]

    def _rnn_step(self, x: Array, state: List[Array], r: Array, rb: Array, hidden: int) -> List[Array]:
        return [self.tanh(self.add(self.add(x, self.product(state[0], r)), rb))]

    def _rnn_relu_step(self, x: Array, state: List[Array], r: Array, rb: Array, hidden: int) -> List[Array]:
        total = self.add(self.add(x, self.product(state[0], r)), rb)
        return [self.maximum(total, self.sub(total, total))]

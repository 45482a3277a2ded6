"""LSTM, GRU and RNN as one operation, for the cases that a framework's own layers know too."""

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from onnx_compat.shim import directions, native, standard_recurrent

__all__ = ["Recurrent", "uses_relu"]


def _accepts(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """Whether a Keras layer computes this operator: known float weights, one activation for all directions, no peepholes."""
    layer = standard_recurrent(node.operator, inputs, attributes)
    return (
        layer is not None
        and layer.is_uniform
        and layer.peepholes is None
        and layer.x.dtype.name in ("float32", "float64")
        and layer.has_known_weights
    )


def uses_relu(attributes: Any) -> bool:
    """Whether an RNN that `_accepts` took applies Relu; its other activation is Tanh."""
    return str((attributes.get("activations") or ["tanh"])[0]).lower() == "relu"


class Recurrent:
    """One step of each cell, and the loop over time and directions around it."""

    node: Any
    add: Any
    sub: Any
    mul: Any
    maximum: Any
    tanh: Any
    sigmoid: Any
    concat: Any
    constant: Any

    def over_time(
        self, step: Callable[..., Tuple[List[Any], List[Any]]], state: List[Any], xs: List[Any], backwards: bool
    ) -> Tuple[List[Any], List[Any]]:
        """`state, ys = step(state, slices)` along the first axis of the xs: the last state, and the ys stacked."""
        raise NotImplementedError

    def product(self, x: Any, w: Any) -> Any:
        """x @ w.T"""
        return self.matmul(x, w, transpose_y=True)  # type: ignore[attr-defined]

    @native("LSTM", _accepts)
    def lstm(self, *args: Any, **attributes: Any) -> Any:
        return self._sequence(args, attributes, self._lstm_step, 4, 2)

    @native("GRU", _accepts)
    def gru(self, *args: Any, **attributes: Any) -> Any:
        step = self._gru_reset_after if attributes.get("linear_before_reset", 0) else self._gru_step
        return self._sequence(args, attributes, step, 3, 1)

    @native("RNN", _accepts)
    def rnn(self, *args: Any, **attributes: Any) -> Any:
        relu = uses_relu(attributes)
        return self._sequence(args, attributes, self._rnn_relu_step if relu else self._rnn_step, 1, 1)

    def _sequence(self, args: Sequence[Any], attributes: Dict[str, Any], step: Any, gates: int, states: int) -> Any:
        node = self.node
        dtype = node.args[0].spec.dtype
        given = dict(enumerate(args))
        weights, recurrent = node.args[1].array, node.args[2].array
        biases = node.args[3].array if given.get(3) is not None else None
        x, hidden = args[0], recurrent.shape[2]
        whole, last = [], [[] for _ in range(states)]  # type: ignore[var-annotated]
        for k, backwards in enumerate(directions(attributes)):
            bias = np.zeros(2 * gates * hidden, dtype.numpy) if biases is None else biases[k]
            w, r = self.constant(weights[k], dtype), self.constant(recurrent[k], dtype)
            wb = self.constant(bias[: gates * hidden], dtype)
            rb = self.constant(bias[gates * hidden :], dtype)
            state = [self._initial(given.get(5 + n), k, x, hidden, dtype) for n in range(states)]
            ahead = self.add(self.product(x, w), wb)  # the input's part of every gate, for all steps at once

            def advance(state: List[Any], xs: List[Any], r: Any = r, rb: Any = rb) -> Tuple[List[Any], List[Any]]:
                state = step(xs[0], state, r, rb, hidden)
                return state, [state[0]]

            state, (ys,) = self.over_time(advance, state, [ahead], backwards)
            whole.append(self.expanded(ys, 1))
            for n in range(states):
                last[n].append(self.expanded(state[n], 0))
        results = [self._joined(whole, 1)] + [self._joined(parts, 0) for parts in last]
        return tuple(results[: len(node.outputs)])

    def _initial(self, given: Any, direction: int, x: Any, hidden: int, dtype: Any) -> Any:
        if given is not None:
            return given[direction]
        return self.states(x, hidden, dtype)

    def states(self, x: Any, hidden: int, dtype: Any) -> Any:
        """Zeros [batch, hidden] for a sequence x [time, batch, features]."""
        return self.constant(np.zeros((int(x.shape[1]), hidden), dtype.numpy), dtype)

    def expanded(self, x: Any, axis: int) -> Any:
        """A new axis of length one."""
        return self.xp.expand_dims(x, axis)  # type: ignore[attr-defined]

    def _joined(self, parts: List[Any], axis: int) -> Any:
        return parts[0] if len(parts) == 1 else self.concat(parts, axis)

    # -- one step: the input's part of the gates, the states, the recurrent weights and bias ---------------------------
    def _cut(self, gates: Any, hidden: int) -> List[Any]:
        return [gates[:, k * hidden : (k + 1) * hidden] for k in range(int(gates.shape[-1]) // hidden)]

    def _lstm_step(self, x: Any, state: List[Any], r: Any, rb: Any, hidden: int) -> List[Any]:
        h, c = state
        i, o, f, g = self._cut(self.add(self.add(x, self.product(h, r)), rb), hidden)
        c = self.add(self.mul(self.sigmoid(f), c), self.mul(self.sigmoid(i), self.tanh(g)))
        return [self.mul(self.sigmoid(o), self.tanh(c)), c]

    def _gru_reset_after(self, x: Any, state: List[Any], r: Any, rb: Any, hidden: int) -> List[Any]:
        (h,) = state
        xz, xr, xn = self._cut(x, hidden)
        hz, hr, hn = self._cut(self.add(self.product(h, r), rb), hidden)
        z = self.sigmoid(self.add(xz, hz))
        n = self.tanh(self.add(xn, self.mul(self.sigmoid(self.add(xr, hr)), hn)))
        return [self.add(n, self.mul(z, self.sub(h, n)))]

    def _gru_step(self, x: Any, state: List[Any], r: Any, rb: Any, hidden: int) -> List[Any]:
        (h,) = state
        xz, xr, xn = self._cut(x, hidden)
        hz, hr = self._cut(self.add(self.product(h, r[: 2 * hidden]), rb[: 2 * hidden]), hidden)
        z = self.sigmoid(self.add(xz, hz))
        inner = self.product(self.mul(self.sigmoid(self.add(xr, hr)), h), r[2 * hidden :])
        n = self.tanh(self.add(xn, self.add(inner, rb[2 * hidden :])))
        return [self.add(n, self.mul(z, self.sub(h, n)))]

    def _rnn_step(self, x: Any, state: List[Any], r: Any, rb: Any, hidden: int) -> List[Any]:
        return [self.tanh(self.add(self.add(x, self.product(state[0], r)), rb))]

    def _rnn_relu_step(self, x: Any, state: List[Any], r: Any, rb: Any, hidden: int) -> List[Any]:
        total = self.add(self.add(x, self.product(state[0], r)), rb)
        return [self.maximum(total, self.sub(total, total))]

"""LSTM and RNN as one kernel.

The kernels keep their states in variables that nothing resets: a second `invoke` would go on where the first one ended.
So an operator before the kernel writes the states into these very tensors, at each run: those that the model gives, or
zeros. It is SPLIT_V, also of a constant: no runtime computes it ahead, and no delegate takes it. After the kernel a
variable holds the state of the end. What reads it has to read the kernel's result too, since the order of operators,
delegates included, follows from nothing but what they read.

The states have a batch, so that it must be known. The kernel multiplies row by row, where XNNPACK takes a batch at once, and
reads all weights at each step. An LSTM of one sequence is this kernel if a cache holds them: beside the same written out it takes
1.2 to 1.7 times as long, and a tenth of the operators or of the file; beside a loop it is the faster one. What has few cells
in all is it, too. For GRU there is no kernel.
"""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import (
    StandardRecurrent,
    activations,
    directions,
    is_static,
    known_array,
    native,
    standard_recurrent,
)
from onnx_compat_tflite.emitter.control import Control, is_short_scan
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Recurrent"]

#: The cells, of all sequences of a batch, up to which the kernel is as fast as what else there is: steps that are written
#: out, or a loop.
_FEW, _SOME = 16, 192
_CACHED = 2**20  # bytes of weights of one direction
#: Steps, batch, directions, cells: the cells of a step beside each other, as whoever reads them mostly wants them.
_BATCH_FIRST = (0, 2, 1, 3)


def _has_kernel(layer: StandardRecurrent, nodes: int, alone: bool) -> bool:
    """Whether the kernel is the fastest form of a layer with known weights and a known batch.

    `nodes`: the nodes of a step that is written out. `alone`: whether the kernel serves one sequence of any number of
    cells, as long as a cache holds the weights.
    """
    steps, batch = layer.x.shape[:2]
    if layer.x.dtype.name != "float32" or not layer.has_known_weights or not is_static(batch):
        return False
    if is_static(steps) and steps < 2:
        return False
    bytes_read = known_array(layer.r, "R")[0].nbytes
    short = is_static(steps) and is_short_scan(steps, nodes, bytes_read)
    limit = _FEW if short else _SOME
    is_cached = known_array(layer.w, "W")[0].nbytes + bytes_read <= _CACHED
    return (alone and batch == 1 and is_cached) or 0 < batch * layer.r.shape[2] <= limit


def _accepts_lstm(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    layer = standard_recurrent("LSTM", inputs, attributes)
    return layer is not None and _has_kernel(layer, 11, True)


def _accepts_rnn(_: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    layer = standard_recurrent("RNN", inputs, attributes)
    return layer is not None and _has_kernel(layer, 3, False)


class Recurrent(Control):
    """Weights are those of all directions, in one constant."""

    @native("LSTM", _accepts_lstm, stored=_BATCH_FIRST)
    def lstm(
        self, X: Handle, W: Handle, R: Handle, B: Optional[Handle] = None, sequence_lens: Any = None,
        initial_h: Any = None, initial_c: Any = None, P: Optional[Handle] = None, **attributes: Any
    ) -> Tuple[Handle, ...]:  # fmt: skip
        ways = directions(attributes)
        begun = self._initial_states([initial_h, initial_c], len(ways), X.dims[1], R.dims[2])
        weights = [_weights(*[None if one is None else one.array[k] for one in (W, R, B, P)]) for k in range(len(ways))]
        how = {"fused_activation_function": "TANH", "time_major": True}
        results = [("float32", _dims(X, R))] * len(ways)
        if len(ways) == 2:
            read = [X, *weights[0], *weights[1], *begun[0], *begun[1], *[None] * 9]
            both = self.add_ops("BIDIRECTIONAL_SEQUENCE_LSTM", read, results, **how)
            return self._join_directions(
                [[one, *self._final_states(one, begun[k], k == 1)] for k, one in enumerate(both)]
            )
        rows = self.reverse(X, [0]) if ways[0] else X
        (found,) = self.add_ops("UNIDIRECTIONAL_SEQUENCE_LSTM", [rows, *weights[0], *begun[0]], results, **how)
        return self._join_directions(
            [[self.reverse(found, [0]) if ways[0] else found, *self._final_states(found, begun[0])]]
        )

    @native("RNN", _accepts_rnn, stored=_BATCH_FIRST)
    def rnn(
        self, X: Handle, W: Handle, R: Handle, B: Optional[Handle] = None, sequence_lens: Any = None,
        initial_h: Any = None, **attributes: Any
    ) -> Tuple[Handle, ...]:  # fmt: skip
        ways, names = directions(attributes), activations("RNN", attributes)
        begun = self._initial_states([initial_h], len(ways), X.dims[1], R.dims[2], flat=True)
        parts = []
        for k, backwards in enumerate(ways):
            rows = self.reverse(X, [0]) if backwards else X
            bias = np.zeros(2 * R.dims[2], np.float32) if B is None else B.array[k]
            weights = [Handle.of(one) for one in (W.array[k], R.array[k], bias.reshape(2, -1).sum(0))]
            how = {"fused_activation_function": names[k][0].upper(), "time_major": True}
            read = [rows, *weights, *begun[k]]
            found = self.add_op("UNIDIRECTIONAL_SEQUENCE_RNN", read, "float32", _dims(X, R), **how)
            parts.append([self.reverse(found, [0]) if backwards else found, *self._final_states(found, begun[k])])
        return self._join_directions(parts)

    def _initial_states(
        self, initial: Sequence[Optional[Handle]], ways: int, batch: int, cells: int, flat: bool = False
    ) -> List[List[Handle]]:
        """For each direction, variables that hold each of these states, or zeros, whenever the kernel begins. `flat`: of
        rank two, as the kernel of RNN has them.
        """
        none = np.zeros((ways, batch, cells), np.float32)
        given = [Handle.of(none) if one is None else one for one in initial]
        if all(one.is_constant for one in given):
            given = [Handle.of(np.concatenate([one.array for one in given]))]
        dims = (batch, cells) if flat else (1, batch, cells)
        kept: List[Handle] = []
        for one in given:
            many = int(one.dims[0])
            whole = self._reshape_rows(one, (many * batch, cells)) if flat else one
            sizes = self.ints(*[whole.dims[0] // many] * many)
            read = [whole, sizes, Handle.of(np.int32(0))]
            kept += self.add_ops("SPLIT_V", read, [("float32", dims)] * many, num_splits=many)
        for one in kept:
            self.graph.mark_variable(one)
        return [kept[k::ways] for k in range(ways)]

    def _final_states(self, found: Handle, states: Sequence[Handle], turned: bool = False) -> List[Handle]:
        """The states after the last step (of a result that is `turned`: the first row), as many as somebody reads; if there
        may be no step, what they were before.
        """
        steps, wanted = found.dims[0], len(self.node.outputs) - 1
        if not isinstance(steps, int):
            return [self._final_state(found, one) for one in states[:wanted]]
        if wanted < 2:
            return [self.slice_axis(found, 0, 0, 1) if turned else self._slice_last_rows(found, 1)][:wanted]
        sizes = [1, steps - 1, 1] if turned else [steps - 1, 1, 1]
        read = [self._concatenate(found, [states[1]], 0), self.ints(*sizes), Handle.of(np.int32(0))]
        parts = self.add_ops("SPLIT_V", read, [("float32", (size, *found.dims[1:])) for size in sizes], num_splits=3)
        return [parts[0 if turned else 1], parts[2]]

    def _final_state(self, found: Handle, state: Handle) -> Handle:
        if state.rank == found.rank:
            return self._slice_last_rows(self._concatenate(found, [state], 0), 1)
        rows = self._concatenate(self._reshape_rows(found, (-1, state.dims[1])), [state], 0)
        return self._reshape_rows(self._slice_last_rows(rows, state.dims[0]), (1, *state.dims))

    def _slice_last_rows(self, x: Handle, many: int) -> Handle:
        """So many rows."""
        rest = [0] * (x.rank - 1)
        ends = self.ints(2**31 - 1, *x.dims[1:])
        read = [x, self.ints(-many, *rest), ends, self.ints(*[1] * x.rank)]
        return self.add_op("STRIDED_SLICE", read, x.dtype, (many, *x.dims[1:]))

    def _reshape_rows(self, x: Handle, dims: Sequence[int]) -> Handle:
        """Of other sizes, -1 where that follows."""
        if x.is_constant:
            return Handle.of(x.array.reshape(dims))
        known = [size if size >= 0 else None for size in dims]
        return self.add_op("RESHAPE", [x, self.ints(*dims)], x.dtype, known)

    def _join_directions(self, parts: Sequence[Sequence[Handle]]) -> Tuple[Handle, ...]:
        """All directions: those of each step beside each other, the states at the end one after the other."""
        steps, *last = [self._concatenate_parts(each, 2 if k == 0 else 0) for k, each in enumerate(zip(*parts))]
        rows, batch, cells = [size if isinstance(size, int) else -1 for size in parts[0][0].dims]
        return (self._reshape_rows(steps, (rows, batch, len(parts), cells)), *last)

    def _concatenate_parts(self, parts: Sequence[Handle], axis: int) -> Handle:
        return parts[0] if len(parts) == 1 else self._concatenate(parts[0], parts[1:], axis)


def _dims(X: Handle, R: Handle) -> Tuple[Any, ...]:
    return (X.dims[0] if isinstance(X.dims[0], int) else None, X.dims[1], R.dims[2])


def _weights(W: Any, R: Any, B: Any, P: Any) -> List[Optional[Handle]]:
    """In the order of the kernel: of the input, of the state, peepholes, biases, and none of a projection. Its gates are
    input, forget, cell, output; ONNX's are input, output, forget, cell.
    """
    cells = R.shape[1]
    bias = np.zeros(4 * cells, np.float32) if B is None else B[: 4 * cells] + B[4 * cells :]
    peepholes = [None] * 3 if P is None else [P[k * cells : (k + 1) * cells] for k in (0, 2, 1)]
    gates = [[part[k * cells : (k + 1) * cells] for k in (0, 2, 3, 1)] for part in (W, R, bias)]
    arrays = [*gates[0], *gates[1], *peepholes, *gates[2]]
    return [*[None if one is None else Handle.of(np.ascontiguousarray(one)) for one in arrays], None, None]

"""LSTM as one kernel, which begins with a step that forgets.

The kernel's states are variables that nothing resets: the second `invoke` goes on where the first one ended, on every
runtime, so that the same input would give another result. So each sequence has one step more before it, and each step one
feature more: it is set in that step and 0 in all others, and has such weights that the gates of input, forgetting and
output are 0 there. Then c = 0 * c + 0 * g and h = 0 * tanh(c) are exact zeros, whatever they were. (NaN stays: after an input that
made it, a foreign interpreter must be told `reset_all_variables()`; `Interpreted` does that by itself.)

The states have a batch, so that it must be known. The kernel multiplies row by row: up to some hundred cells in all
it is about as fast as a loop or faster, in few operators; beyond, XNNPACK is the faster one. The cell at the end cannot be
asked for. UNIDIRECTIONAL_SEQUENCE_RNN has no gate that could forget, and for GRU there is no kernel.
"""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.dims import is_known
from onnx_compat.shim import native
from onnx_compat_tflite.emitter.control import Control, moderate
from onnx_compat_tflite.graph import Handle

__all__ = ["Recurrent"]

_USUAL = ["sigmoid", "tanh", "tanh"]
_WAYS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_MOST = 128  # cells, of all sequences of a batch
_NODES = 11  # of a step that is written out
_SURE = 128.0  # of its negative the sigmoid is 0 in float32: twice over, so that weights may be rounded
_RARE = 2.0**20  # what no cell goes beyond: it grows by 1 in a step at most
_FLAG = 2.0**15  # the feature where it is set: weights stay small, and all is within float16


def _fits(node: Any, inputs: Sequence[Any], attributes: Any) -> bool:
    """Known weights, a known and small batch, states that begin with zeros, the usual activations."""
    x, w, r, bias, lengths, h, c, peepholes = (*inputs, *[None] * 8)[:8]
    ways = _WAYS.get(attributes.get("direction", "forward"), ())
    names = [str(name).lower() for name in attributes.get("activations") or _USUAL * len(ways)]
    if not ways or names != _USUAL * len(ways) or lengths is not None or any(node.outputs[2:]):
        return False
    if any(attributes.get(name) for name in ("activation_alpha", "activation_beta", "input_forget", "layout")):
        return False
    known = [one for one in (w, r, bias, h, c, peepholes) if one is not None]
    if x.dtype.name != "float32" or attributes.get("clip") is not None or not all(one.known for one in known):
        return False
    if any(one.value.any() for one in (h, c) if one is not None) or not is_known(x.shape[1]):
        return False
    steps, cells = x.shape[0], int(r.shape[2])
    written_out = is_known(steps) and moderate(int(steps), _NODES, 16 * cells * cells)
    return not written_out and 0 < x.shape[1] * cells <= _MOST and (not is_known(steps) or steps > 0)


class Recurrent(Control):
    """The kernel's gates are input, forget, cell, output; ONNX's are input, output, forget, cell."""

    @native("LSTM", _fits)
    def lstm(
        self, X: Handle, W: Handle, R: Handle, B: Optional[Handle] = None, sequence_lens: Any = None,
        initial_h: Any = None, initial_c: Any = None, P: Optional[Handle] = None, **attributes: Any
    ) -> Tuple[Handle, ...]:  # fmt: skip
        steps, batch, cells = X.dims[0], X.dims[1], R.dims[2]
        after = steps + 1 if isinstance(steps, int) else None
        flagged = self.surrounded(X, [(0, 0), (0, 0), (0, 1)])
        first = np.zeros((1, batch, W.dims[2] + 1), np.float32)
        first[:, :, -1] = _FLAG
        outputs: List[List[Handle]] = [[], []]
        for k, backwards in enumerate(_WAYS[attributes.get("direction", "forward")]):
            rows = self.reverse(flagged, [0]) if backwards else flagged
            given = self._joined(Handle.of(first), [rows], 0)
            weights = _weights(*[None if one is None else one.array[k] for one in (W, R, B, P)])
            states = [self.graph.variable(self._name() or "lstm", "float32", (batch, cells)) for _ in range(2)]
            read = [given, *[None if one is None else Handle.of(one) for one in weights], None, None, *states]
            how = {"fused_activation_function": "TANH", "time_major": True}
            found = self.add_op("UNIDIRECTIONAL_SEQUENCE_LSTM", read, "float32", (after, batch, cells), **how)
            begin, size = self.ints(1, 0, 0), self.ints(-1, batch, cells)
            ys = self._boxed(found, begin, size, (steps, batch, cells))
            outputs[0].append(self.reverse(ys, [0]) if backwards else ys)
            outputs[1].append(self._last_row(found))
        return self._together(outputs[0], 1), self._together(outputs[1], 0)

    def _last_row(self, x: Handle) -> Handle:
        begin, end, apart = self.ints(-1, 0, 0), self.ints(0, *x.dims[1:]), self.ints(1, 1, 1)
        return self.add_op("STRIDED_SLICE", [x, begin, end, apart], x.dtype, x.dims[1:], shrink_axis_mask=1)

    def _together(self, parts: Sequence[Handle], axis: int) -> Handle:
        """Of each direction, along a new axis."""
        first = parts[0]
        dims = (*first.dims[:axis], len(parts), *first.dims[axis:])
        if len(parts) == 1:
            shape = self.ints(*[size if isinstance(size, int) else -1 for size in dims])
            return self.add_op("RESHAPE", [first, shape], first.dtype, dims)
        return self.add_op("PACK", list(parts), first.dtype, dims, values_count=len(parts), axis=axis)


def _weights(W: Any, R: Any, B: Any, P: Any) -> List[Any]:
    """In the order of the kernel: of the input, of the state, peepholes, biases."""
    cells = R.shape[1]
    bias = np.zeros(4 * cells, np.float32) if B is None else B[: 4 * cells] + B[4 * cells :]
    seen = np.zeros(4 * cells, np.float32)
    if P is not None:
        seen[: 3 * cells] = np.abs(P)
    # As large as the others where that does, so that weights of few bits lose nothing.
    need = 2 * (_SURE + np.abs(R).sum(1) + np.abs(bias) + _RARE * seen) / _FLAG
    forgets = -np.maximum(np.abs(W).max(1, initial=0), need)
    forgets[3 * cells :] = 0
    whole = np.concatenate([W, forgets[:, None]], 1).astype(np.float32)
    peepholes = [None] * 3 if P is None else [np.ascontiguousarray(P[k * cells : (k + 1) * cells]) for k in (0, 2, 1)]
    gates = [[part[k * cells : (k + 1) * cells] for k in (0, 2, 3, 1)] for part in (whole, R, bias)]
    return [*gates[0], *gates[1], *peepholes, *gates[2]]

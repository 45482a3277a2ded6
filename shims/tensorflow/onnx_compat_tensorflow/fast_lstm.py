"""Native LSTM by the kernel BlockLSTMV2, which computes all time steps. The composed meaning is a loop of operations."""

from typing import Any, List, Optional, Sequence

from onnx_compat.shim import directions, is_static, native, standard_recurrent
from onnx_compat_tensorflow.elementwise import Elementwise
from onnx_compat_tensorflow.framework_types import Attributes, Size, TfTensor

__all__ = ["FastLstm"]


def _can_use_block_lstm(_: object, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether BlockLSTMV2 can compute an LSTM. All of these conditions must hold:

    - `standard_recurrent` accepts the node.
    - The input is float32.
    - The sizes of the weights are static and not 0.
    """
    lstm = standard_recurrent("LSTM", inputs, attributes)
    return (
        lstm is not None
        and lstm.x.dtype.name == "float32"
        and all(is_static(size) and size > 0 for size in (*lstm.w.shape, *lstm.r.shape))
    )


class FastLstm(Elementwise):
    """Native LSTM by BlockLSTMV2.

    The gate order of BlockLSTMV2 is input, forget, cell, output. ONNX has input, output, forget, cell.
    """

    @native("LSTM", _can_use_block_lstm, available=lambda emitter: emitter.features.has("BlockLSTMV2"))
    def lstm(
        self, X: TfTensor, W: TfTensor, R: TfTensor, B: Optional[TfTensor] = None, sequence_lens: Optional[TfTensor] = None,
        initial_h: Optional[TfTensor] = None, initial_c: Optional[TfTensor] = None, P: Optional[TfTensor] = None, **attributes: Any
    ) -> TfTensor:  # fmt: skip
        raw = self.raw
        steps, batch = self.lengths(X)[:2]
        hidden = self.lengths(R)[2]
        zero_state = raw.Fill(dims=self.vector([batch, hidden]), value=self.number(0, X.dtype))
        ys: List[Any] = []
        states: List[List[Any]] = [[], []]
        for k, backwards in enumerate(directions(attributes)):
            weights = raw.Transpose(x=self._reorder_gates(raw.ConcatV2(values=[W[k], R[k]], axis=1)), perm=[1, 0])
            bias = self.tf.zeros([4 * hidden], X.dtype)
            if B is not None:
                bias = self._reorder_gates(raw.AddV2(x=B[k, : 4 * hidden], y=B[k, 4 * hidden :]))
            peepholes = [bias[:hidden]] * 3 if P is None else raw.Split(axis=0, value=P[k], num_split=3)
            start = [zero_state if given is None else given[k] for given in (initial_h, initial_c)]
            block = raw.BlockLSTMV2(
                seq_len_max=self.vector([steps])[0],
                x=raw.ReverseV2(tensor=X, axis=[0]) if backwards else X,
                cs_prev=start[1],
                h_prev=start[0],
                w=weights,
                wci=peepholes[0],
                wco=peepholes[1],
                wcf=peepholes[2],
                b=bias,
                cell_clip=0,
                use_peephole=P is not None,
            )
            ys.append(raw.ReverseV2(tensor=block.h, axis=[0]) if backwards else block.h)
            for n, all_steps in enumerate((block.h, block.cs)):
                states[n].append(self._last(all_steps, start[n], steps))
        results = [raw.Pack(values=ys, axis=1), *(raw.Pack(values=parts, axis=0) for parts in states)]
        return tuple(results[: len(self.node.outputs)])

    def _last(self, states: TfTensor, start: TfTensor, steps: Size) -> TfTensor:
        """Return the last element of `states` along axis 0, time; the initial state `start` if there are no steps."""
        if not (isinstance(steps, int) and steps):
            states = self.raw.ConcatV2(values=[self.raw.ExpandDims(input=start, axis=0), states], axis=0)
        return states[-1]

    def _reorder_gates(self, gates: TfTensor) -> TfTensor:
        """Return `gates` with axis 0 permuted from ONNX's order (i, o, f, c) to that of BlockLSTMV2 (i, f, c, o)."""
        i, o, f, c = self.raw.Split(axis=0, value=gates, num_split=4)
        return self.raw.ConcatV2(values=[i, f, c, o], axis=0)

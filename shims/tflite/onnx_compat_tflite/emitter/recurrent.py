"""Native LSTM and RNN: a single kernel for the whole sequence.

The kernels keep their states in variables that no runtime resets: a second `invoke` would continue from the final
states. So at each run an operator before the kernel writes the initial states, or zeros, into these variables. It is
SPLIT_V, also for a constant: no runtime folds it, and no delegate takes it.

After the kernel a variable holds the final state. An operator that reads it must also read the result of the kernel:
only data dependencies fix the order of operators, and delegates keep to them alone.

The variables have the batch size in their shape, so it must be known. The kernel multiplies row by row, where XNNPACK
multiplies a whole batch, and it reads all weights at each step. For a single sequence it is used if a cache holds the
weights. It takes 1.2 to 1.7 times as long as the unrolled LSTM, with a tenth of the operators or of the file. It is
faster than a loop. It is also used for few cells. There is no kernel for GRU.
"""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import (
    GraphNode,
    StandardRecurrent,
    activations,
    directions,
    is_static,
    known_array,
    standard_recurrent,
)
from onnx_compat_tflite.emitter import joining, scans, slicing
from onnx_compat_tflite.emitter.builder import Attributes, Builder
from onnx_compat_tflite.emitter.registry import native
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["lstm", "rnn"]

#: The number of cells, over all sequences of a batch, up to which the kernel is as fast as unrolled steps, or as a loop.
_UNROLLED_CELLS, _LOOP_CELLS = 16, 192
_CACHED_BYTES = 2**20  # the weights of a direction that a cache holds
#: The order of axes (steps, batch, directions, cells) that most consumers of the result read.
_BATCH_FIRST = (0, 2, 1, 3)


def _has_kernel(layer: StandardRecurrent, nodes: int, alone: bool) -> bool:
    """Whether the kernel of LSTM or RNN computes a layer, and is preferable to a scan.

    The kernel does not compute another dtype than float32, unknown weights, an unknown batch size, or a known number of
    steps below 2. The kernel is preferable in these cases:

    - The product of batch size and cells is at most a limit. The limit is `_UNROLLED_CELLS` if the scan is short enough
      to be unrolled (`is_short_scan`), else `_LOOP_CELLS`.
    - `alone` is true, the batch size is 1, and the matrices W and R of a direction take at most `_CACHED_BYTES`.

    `nodes` is the number of nodes of an unrolled step. `alone`: whether the kernel is preferable for a single sequence
    with cached weights, as for LSTM.
    """
    steps, batch = layer.x.shape[:2]
    if layer.x.dtype.name != "float32" or not layer.has_known_weights or not is_static(batch):
        return False
    if is_static(steps) and steps < 2:
        return False
    bytes_read = known_array(layer.r, "R")[0].nbytes
    short = is_static(steps) and scans.is_short_scan(steps, nodes, bytes_read)
    limit = _UNROLLED_CELLS if short else _LOOP_CELLS
    is_cached = known_array(layer.w, "W")[0].nbytes + bytes_read <= _CACHED_BYTES
    return (alone and batch == 1 and is_cached) or 0 < batch * layer.r.shape[2] <= limit


def _accepts_lstm(_: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether the kernel computes this LSTM, and is preferable to a scan (`standard_recurrent`, `_has_kernel`)."""
    layer = standard_recurrent("LSTM", inputs, attributes)
    return layer is not None and _has_kernel(layer, 11, True)


def _accepts_rnn(_: GraphNode, inputs: Sequence[Any], attributes: Attributes) -> bool:
    """Whether the kernel computes this RNN, and is preferable to a scan (`standard_recurrent`, `_has_kernel`)."""
    layer = standard_recurrent("RNN", inputs, attributes)
    return layer is not None and _has_kernel(layer, 3, False)


@native("LSTM", _accepts_lstm, stored=_BATCH_FIRST)
def lstm(
    builder: Builder, X: Handle, W: Handle, R: Handle, B: Optional[Handle] = None, sequence_lens: Optional[Handle] = None,
    initial_h: Optional[Handle] = None, initial_c: Optional[Handle] = None, P: Optional[Handle] = None,
    **attributes: Any
) -> Tuple[Handle, ...]:  # fmt: skip
    """Emit LSTM. Return (Y,), (Y, Y_h) or (Y, Y_h, Y_c), as many as the node has outputs. `_accepts_lstm` must hold.

    Y is returned as [steps, batch, directions, cells], Y_h and Y_c as [directions, batch, cells].
    """
    are_backwards = directions(attributes)
    states = _initial_states(builder, [initial_h, initial_c], len(are_backwards), X.dims[1], R.dims[2])
    weights = [
        _weights(W.array[k], R.array[k], None if B is None else B.array[k], None if P is None else P.array[k])
        for k in range(len(are_backwards))
    ]
    options = {"fused_activation_function": "TANH", "time_major": True}
    results = [("float32", _dims(X, R))] * len(are_backwards)
    if len(are_backwards) == 2:
        inputs = [X, *weights[0], *weights[1], *states[0], *states[1], *[None] * 9]
        both = builder.add_ops("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, results, **options)
        parts = [[result, *_final_states(builder, result, states[k], k == 1)] for k, result in enumerate(both)]
        return _join_directions(builder, parts)
    rows = slicing.reverse(builder, X, [0]) if are_backwards[0] else X
    (result,) = builder.add_ops("UNIDIRECTIONAL_SEQUENCE_LSTM", [rows, *weights[0], *states[0]], results, **options)
    steps = slicing.reverse(builder, result, [0]) if are_backwards[0] else result
    return _join_directions(builder, [[steps, *_final_states(builder, result, states[0])]])


@native("RNN", _accepts_rnn, stored=_BATCH_FIRST)
def rnn(
    builder: Builder, X: Handle, W: Handle, R: Handle, B: Optional[Handle] = None, sequence_lens: Optional[Handle] = None,
    initial_h: Optional[Handle] = None, **attributes: Any
) -> Tuple[Handle, ...]:  # fmt: skip
    """Emit RNN: return Y, then Y_h if the node has this output. `_accepts_rnn` must hold.

    Y is returned as [steps, batch, directions, cells], Y_h as [directions, batch, cells].
    """
    are_backwards, names = directions(attributes), activations("RNN", attributes)
    states = _initial_states(builder, [initial_h], len(are_backwards), X.dims[1], R.dims[2], flat=True)
    parts = []
    for k, backwards in enumerate(are_backwards):
        rows = slicing.reverse(builder, X, [0]) if backwards else X
        bias = np.zeros(2 * R.dims[2], np.float32) if B is None else B.array[k]
        weights = [Handle.of(array) for array in (W.array[k], R.array[k], bias.reshape(2, -1).sum(0))]
        options = {"fused_activation_function": names[k][0].upper(), "time_major": True}
        inputs = [rows, *weights, *states[k]]
        result = builder.add_op("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, "float32", _dims(X, R), **options)
        steps = slicing.reverse(builder, result, [0]) if backwards else result
        parts.append([steps, *_final_states(builder, result, states[k])])
    return _join_directions(builder, parts)


def _initial_states(
    builder: Builder,
    initial: Sequence[Optional[Handle]],
    direction_count: int,
    batch: int,
    cells: int,
    flat: bool = False,
) -> List[List[Handle]]:
    """Return, for each direction, a list of variables that are set to the initial states at the start of each run.

    `initial` has an entry for each state: h, and for LSTM also c. An entry is a tensor [directions, batch, cells], or
    None for zeros. The list of a direction has a variable for each entry, in the same order.

    `flat`: the variables have rank 2, as the kernel of RNN requires.
    """
    zeros = np.zeros((direction_count, batch, cells), np.float32)
    states = [Handle.of(zeros) if state is None else state for state in initial]
    if all(state.is_constant for state in states):
        states = [Handle.of(np.concatenate([state.array for state in states]))]
    dims = (batch, cells) if flat else (1, batch, cells)
    variables: List[Handle] = []
    for state in states:
        part_count = int(state.dims[0])
        rows = _reshape_rows(builder, state, (part_count * batch, cells)) if flat else state
        sizes = builder.ints(*[rows.dims[0] // part_count] * part_count)
        inputs = [rows, sizes, Handle.of(np.int32(0))]
        variables += builder.add_ops("SPLIT_V", inputs, [("float32", dims)] * part_count, num_splits=part_count)
    for variable in variables:
        builder.graph.mark_variable(variable)
    return [variables[k::direction_count] for k in range(direction_count)]


def _final_states(
    builder: Builder, result: Handle, states: Sequence[Handle], is_reversed: bool = False
) -> List[Handle]:
    """Return the final states of a direction that the node has as outputs: [], [h], or [h, c].

    Each state is [1, batch, cells]. `result` has the output of each step. `states` are the variables of the direction:
    h, and for LSTM also c.

    - For a known number of steps, h is the last step of `result`; with `is_reversed`, the first step.
    - For an unknown number of steps, h is read from its variable. This is also right for zero steps.
    - c is always read from its variable.
    """
    steps, state_count = result.dims[0], len(builder.node.outputs) - 1
    if not isinstance(steps, int):
        return [_final_state(builder, result, state) for state in states[:state_count]]
    if state_count < 2:
        return [slicing.slice_axis(builder, result, 0, 0, 1) if is_reversed else _slice_last_rows(builder, result, 1)][
            :state_count
        ]
    sizes = [1, steps - 1, 1] if is_reversed else [steps - 1, 1, 1]
    inputs = [joining.concatenate(builder, result, [states[1]], 0), builder.ints(*sizes), Handle.of(np.int32(0))]
    parts = builder.add_ops("SPLIT_V", inputs, [("float32", (size, *result.dims[1:])) for size in sizes], num_splits=3)
    return [parts[0 if is_reversed else 1], parts[2]]


def _final_state(builder: Builder, result: Handle, state: Handle) -> Handle:
    """Return the content of the variable `state` after the kernel, as a tensor [1, batch, cells].

    `result` is the result of the kernel. The variable is concatenated after `result` and sliced off again, so that it
    is read after the kernel has run.
    """
    if state.rank == result.rank:
        return _slice_last_rows(builder, joining.concatenate(builder, result, [state], 0), 1)
    rows = joining.concatenate(builder, _reshape_rows(builder, result, (-1, state.dims[1])), [state], 0)
    return _reshape_rows(builder, _slice_last_rows(builder, rows, state.dims[0]), (1, *state.dims))


def _slice_last_rows(builder: Builder, x: Handle, count: int) -> Handle:
    """Return the last `count` rows along the first axis of x, whose other sizes are known."""
    zeros = [0] * (x.rank - 1)
    open_ends = builder.ints(2**31 - 1, *x.dims[1:])
    inputs = [x, builder.ints(-count, *zeros), open_ends, builder.ints(*[1] * x.rank)]
    return builder.add_op("STRIDED_SLICE", inputs, x.dtype, (count, *x.dims[1:]))


def _reshape_rows(builder: Builder, x: Handle, dims: Sequence[int]) -> Handle:
    """Reshape x to `dims`. A single size may be -1: the other sizes determine it. A constant gives a constant."""
    if x.is_constant:
        return Handle.of(x.array.reshape(dims))
    known = [size if size >= 0 else None for size in dims]
    return builder.add_op("RESHAPE", [x, builder.ints(*dims)], x.dtype, known)


def _join_directions(builder: Builder, parts: Sequence[Sequence[Handle]]) -> Tuple[Handle, ...]:
    """Return (Y, final states...) of all directions. Y is [steps, batch, directions, cells].

    `parts` has an entry for each direction: its steps [steps, batch, cells], then its final states. The final states of
    the directions are joined along their first axis.
    """
    steps, *states = [_concatenate_parts(builder, tensors, 2 if k == 0 else 0) for k, tensors in enumerate(zip(*parts))]
    rows, batch, cells = [size if isinstance(size, int) else -1 for size in parts[0][0].dims]
    return (_reshape_rows(builder, steps, (rows, batch, len(parts), cells)), *states)


def _concatenate_parts(builder: Builder, parts: Sequence[Handle], axis: int) -> Handle:
    return parts[0] if len(parts) == 1 else joining.concatenate(builder, parts[0], parts[1:], axis)


def _dims(X: Handle, R: Handle) -> Tuple[Any, ...]:
    """Return the sizes (steps, batch, cells) of the result of a direction. A symbolic number of steps becomes None."""
    return (X.dims[0] if isinstance(X.dims[0], int) else None, X.dims[1], R.dims[2])


def _weights(W: np.ndarray, R: np.ndarray, B: Optional[np.ndarray], P: Optional[np.ndarray]) -> List[Optional[Handle]]:
    """Return the inputs 1 to 17 of the LSTM kernel: the weights of a direction, in this order.

    - 4 matrices of W, then 4 matrices of R, for the gates input, forget, cell, output
    - 3 peepholes, for the gates input, forget, output; each None without P
    - 4 biases, for the gates input, forget, cell, output; each the sum of ONNX's two biases, or zeros without B
    - None, None: the kernel's projection is not used

    `W`, `R`, `B` and `P` are the arrays of ONNX for this direction. Their gates are input, output, forget, cell; P has
    no cell gate.
    """
    cells = R.shape[1]
    bias = np.zeros(4 * cells, np.float32) if B is None else B[: 4 * cells] + B[4 * cells :]
    peepholes = [None] * 3 if P is None else [P[k * cells : (k + 1) * cells] for k in (0, 2, 1)]
    gates = [[part[k * cells : (k + 1) * cells] for k in (0, 2, 3, 1)] for part in (W, R, bias)]
    arrays = [*gates[0], *gates[1], *peepholes, *gates[2]]
    return [*[None if array is None else Handle.of(np.ascontiguousarray(array)) for array in arrays], None, None]

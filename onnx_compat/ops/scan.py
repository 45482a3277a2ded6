"""Scan: apply a body to each slice of the scan inputs."""

from typing import TYPE_CHECKING, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import is_static
from onnx_compat.model import Graph
from onnx_compat.ops.arguments import normalize_axes, take_slice
from onnx_compat.ops.registry import op
from onnx_compat.primitives.ranges import check_same
from onnx_compat.tracing.values import Tensor, as_sizes, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context


@op("Scan", since=(9, 11, 16, 19, 21, 23, 24, 25))
def scan(
    ctx: "Context",
    *initial_state_and_scan_inputs: Tensor,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> List[Tensor]:
    """Apply a body to each slice of the scan inputs. Return [*final states, *stacked scan outputs].

    The body maps (*states, *slices) to [*states, *scan outputs of the iteration].

    - num_scan_inputs: the last `num_scan_inputs` inputs are scan inputs; the inputs before them are initial states.
    - scan_input_axes: for each scan input, the axis that is sliced. An absent entry is 0.
    - scan_output_axes: for each scan output, the axis along which it is stacked. An absent entry is 0.
    - scan_input_directions, scan_output_directions: for each scan input or output, 1 reverses the order of the slices.
      An absent entry is 0.

    The number of iterations is the size of the sliced axis of the first scan input. Raises NeedsKnownError if this size
    is known to be 0. Raises InvalidModelError if num_scan_inputs does not fit the inputs, or an axis is out of range.
    Raises it also if a recorded state changes its dtype, its rank or a static size.
    """
    count = len(initial_state_and_scan_inputs) - num_scan_inputs
    if not 0 <= count < len(initial_state_and_scan_inputs):
        inputs = len(initial_state_and_scan_inputs)
        raise InvalidModelError("num_scan_inputs is %d, the Scan has %d inputs" % (num_scan_inputs, inputs))
    state, xs = initial_state_and_scan_inputs[:count], list(initial_state_and_scan_inputs[count:])
    for k, x in enumerate(xs):
        axis = normalize_axes(scan_input_axes[k : k + 1] or [0], x.rank)[0]
        x = p.transpose(x, [axis, *[other_axis for other_axis in range(x.rank) if other_axis != axis]])
        xs[k] = p.reverse(x, [0]) if any(scan_input_directions[k : k + 1]) else x
    results = p.scan(ctx.body(body), list(state), xs, xs[0].shape[0])
    finals, ys = results[:count], results[count:]
    for k, y in enumerate(ys):
        y = p.reverse(y, [0]) if any(scan_output_directions[k : k + 1]) else y
        axis = normalize_axes(scan_output_axes[k : k + 1] or [0], y.rank)[0]
        perm = list(range(1, y.rank))
        perm.insert(axis, 0)
        ys[k] = p.transpose(y, perm)
    return [*finals, *ys]


@op("Scan", since=8)
def scan_8(
    ctx: "Context",
    sequence_lens: Optional[Tensor] = None,
    *initial_state_and_scan_inputs: Tensor,
    body: Graph,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> List[Tensor]:
    """Apply `scan` to each sample of a batch, and stack the results: Scan of opset 8.

    - Axis 0 of every state, scan input and result is the batch. Axis 1 of a scan input or output has the steps.
    - sequence_lens: the number of steps of each sample, by default all. Steps after the end of a sequence are zeros in
      the scan outputs.
    - directions: 1 for each scan input that is read from the last step of the sequence to the first.

    An empty batch gives empty results; their other sizes are those of a sample of zeros.

    Raises NeedsKnownError if the batch size is not known, or if a sample is known to have no steps. Raises
    InvalidModelError if the inputs have no axes of batch and steps, or other batch sizes than `sequence_lens`.
    """
    values = list(initial_state_and_scan_inputs)
    count = len(values) - num_scan_inputs
    if num_scan_inputs < 1 or count < 0 or any(x.rank < 1 + (k >= count) for k, x in enumerate(values)):
        raise InvalidModelError("a Scan of opset 8 needs a scan input, and inputs with the axes of batch and steps")
    batch, steps = values[-1].shape[:2]
    if not is_static(batch):
        raise NeedsKnownError("a Scan of opset 8 needs a batch size that is known", lift([batch]))
    samples = int(batch) or 1
    if not batch:
        values = [p.full((1, *value.shape[1:]), "" if value.dtype.kind == "s" else 0, value.dtype) for value in values]
    lengths = [steps] * samples if sequence_lens is None or not batch else as_sizes(sequence_lens, batch)
    check_same("the number of sequence lengths", len(lengths), "the batch size", samples)
    rows = []
    for entry, length in enumerate(lengths):
        entry_values = [take_slice(value, entry) for value in values]
        entry_values[count:] = [p.slice_axis(x, 0, 0, length) for x in entry_values[count:]]
        results = scan(ctx, *entry_values, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        ys = [p.pad(y, [0] * y.rank, [steps - length] + [0] * (y.rank - 1)) for y in results[count:]]
        rows.append([*results[:count], *ys])
    results = [p.stack(list(column), 0) for column in zip(*rows)]
    return results if batch else [p.slice_axis(result, 0, 0, 0) for result in results]

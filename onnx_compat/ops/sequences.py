"""Sequences and optionals. While tracing, the length of a sequence is known, and the sequence holds its elements."""

from typing import TYPE_CHECKING, Any, List, Optional

from onnx_compat import limits
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import Extent, is_static, minimum
from onnx_compat.ir.dtypes import DType, bool_, float32, int64
from onnx_compat.model import Graph
from onnx_compat.model.types import Type
from onnx_compat.ops.arguments import known_number
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import EMPTY_OPTIONAL, SequenceValue, Tensor, as_sizes, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Value = Any  # a Tensor, a SequenceValue, a MapValue or an empty optional


@op("SequenceEmpty", since=11)
def sequence_empty(*, dtype: Optional[int] = None) -> SequenceValue:
    """Return an empty sequence of tensors of the dtype with the ONNX number `dtype`, by default float32."""
    return SequenceValue(float32 if dtype is None else DType.of(dtype), ())


@op("SequenceConstruct", since=11)
def sequence_construct(*inputs: Tensor) -> SequenceValue:
    """Return a sequence of the inputs, in their order. Its dtype is that of the first input.

    Raises LimitError if the number of inputs exceeds the limit `sequence_items`.
    """
    _check_length(len(inputs))
    return SequenceValue(inputs[0].dtype, tuple(inputs))


def _check_length(count: int) -> None:
    """Raise LimitError if a sequence of `count` elements exceeds the limit `sequence_items`."""
    limits.check("sequence_items", count, "a sequence")


def _normalize_position(position: Tensor, length: int, end: int) -> int:
    """Return a position in a sequence as an int in [0, end). A negative position counts from the end of the sequence.

    `length` is the length of the sequence. `end` is `length`, or length + 1 to insert. Raises InvalidModelError if the
    position is not in [-length, end). Raises NeedsKnownError if the position is not known.
    """
    index = int(known_number(position, "the position in a sequence"))
    if not -length <= index < end:
        raise InvalidModelError("position %d is out of range for a sequence of %d elements" % (index, length))
    return index + length if index < 0 else index


@op("SequenceAt", since=11)
def sequence_at(input_sequence: SequenceValue, position: Tensor) -> Any:
    """Return the element of a sequence at `position`. A negative position counts from the end.

    Raises NeedsKnownError if the position is not known. Raises InvalidModelError if it is out of range.
    """
    return input_sequence.items[_normalize_position(position, len(input_sequence.items), len(input_sequence.items))]


@op("SequenceErase", since=11)
def sequence_erase(input_sequence: SequenceValue, position: Optional[Tensor] = None) -> SequenceValue:
    """Return the sequence without the element at `position`, by default the last element.

    A negative position counts from the end. Raises NeedsKnownError if the position is not known. Raises
    InvalidModelError if it is out of range, or if the sequence is empty.
    """
    items = list(input_sequence.items)
    if not items and position is None:
        raise InvalidModelError("the sequence is empty: no element can be erased")
    del items[-1 if position is None else _normalize_position(position, len(items), len(items))]
    return SequenceValue(input_sequence.dtype, tuple(items))


@op("SequenceInsert", since=11)
def sequence_insert(input_sequence: SequenceValue, tensor: Tensor, position: Optional[Tensor] = None) -> SequenceValue:
    """Return the sequence with `tensor` inserted before `position`, by default at the end.

    The new sequence has the dtype of the tensor. A negative position counts from the end. Raises NeedsKnownError if
    the position is not known. Raises InvalidModelError if it is out of range. Raises LimitError if the new length
    exceeds the limit `sequence_items`.
    """
    items = list(input_sequence.items)
    _check_length(len(items) + 1)
    items.insert(len(items) if position is None else _normalize_position(position, len(items), len(items) + 1), tensor)
    return SequenceValue(tensor.dtype, tuple(items))


@op("SequenceLength", since=11)
def sequence_length(input_sequence: SequenceValue) -> Tensor:
    """Return the number of elements of a sequence as an int64 scalar."""
    return lift(len(input_sequence.items), int64)


@op("ConcatFromSequence", since=11)
def concat_from_sequence(input_sequence: SequenceValue, *, axis: int, new_axis: int = 0) -> Tensor:
    """Concatenate the elements of a sequence along an axis.

    If `new_axis`, stack the elements along a new axis at `axis` of the result. A negative axis counts from the end.
    Raises InvalidModelError if the sequence is empty.
    """
    items = input_sequence.items
    if not items:
        raise InvalidModelError("the sequence is empty: it has no elements to concatenate")
    if not new_axis:
        return p.concat(items, axis)
    return p.stack(items, p.axis_of(axis, items[0].rank + 1))


@op("SplitToSequence", since=(11, 24))
def split_to_sequence(
    input: Tensor, split: Optional[Tensor] = None, *, axis: int = 0, keepdims: int = 1
) -> SequenceValue:
    """Split a tensor along an axis into a sequence of consecutive pieces.

    - `split` is a vector: the size of each piece.
    - `split` is a scalar: the size of all pieces but the last, which may be smaller.
    - `split` is absent: each piece has size 1 along the axis. If `keepdims` is 0, the axis is removed.

    Raises InvalidModelError for sizes or an axis that do not fit. Raises NeedsKnownError if a scalar `split` or the
    number of pieces is not known. Raises LimitError for more pieces than the limit `sequence_items`, unless the sizes
    in a vector `split` are known.
    """
    axis = p.existing_axis(axis, input)
    if split is not None and split.rank == 1:
        pieces = p.split(input, axis, as_sizes(split))
    else:
        step = 1 if split is None else int(known_number(split, "the size of the pieces of a SplitToSequence"))
        pieces = p.split(input, axis, _piece_sizes(input, axis, step))
    if split is None and not keepdims:
        pieces = [p.squeeze(piece, [axis]) for piece in pieces]
    return SequenceValue(input.dtype, tuple(pieces))


def _piece_sizes(x: Tensor, axis: int, step: int) -> List[Extent]:
    extent = x.shape[axis]
    if step < 1:
        raise InvalidModelError("the size of the pieces of a SplitToSequence is %d; it must be 1 or more" % step)
    if not is_static(extent):
        raise NeedsKnownError("the length of the sequence depends on a size that is not known", lift([extent]))
    _check_length(-(-extent // step))
    return [minimum(step, extent - start) for start in range(0, extent, step)]


@op("SequenceMap", since=17)
def sequence_map(
    ctx: "Context", input_sequence: SequenceValue, *additional_inputs: Value, body: Graph
) -> List[SequenceValue]:
    """Apply the subgraph `body` to each element of a sequence. Return a list with a sequence for each output of `body`.

    In each call, `body` gets the element, then the additional inputs. A sequence among them contributes its element at
    the same position; a tensor is passed whole.

    An empty sequence gives empty sequences. They have the dtypes that `body` declares for its outputs, by default
    float32. Raises InvalidModelError if an additional sequence is shorter than the first.
    """
    count, rows = len(input_sequence.items), []
    for value in additional_inputs:
        if isinstance(value, SequenceValue) and len(value.items) < count:
            raise InvalidModelError(
                "an additional sequence has %d elements, the first sequence has %d" % (len(value.items), count)
            )
    for k, item in enumerate(input_sequence.items):
        arguments = [value.items[k] if isinstance(value, SequenceValue) else value for value in additional_inputs]
        rows.append(ctx.body(body)(item, *arguments))
    if not rows:
        return [SequenceValue(_element_dtype(output), ()) for output in body.outputs]
    return [SequenceValue(column[0].dtype, tuple(column)) for column in zip(*rows)]


def _element_dtype(value_info: Any) -> DType:
    dtype = getattr(value_info.type, "dtype", None)
    return float32 if dtype is None else dtype


@op("Optional", since=(15, 28))
def optional(input: Value = None, *, type: Optional[Type] = None) -> Any:
    """Return an optional that holds the input, or an empty optional without an input. `type` has no effect."""
    return EMPTY_OPTIONAL if input is None else input


@op("OptionalHasElement", since=(15, 18, 28))
def optional_has_element(input: Value = None) -> Tensor:
    """Return whether the optional holds a value, as a bool scalar.

    False for an empty optional or an absent input. True for a value that is no optional.
    """
    return lift(input is not None and input is not EMPTY_OPTIONAL, bool_)


@op("OptionalGetElement", since=(15, 18, 28))
def optional_get_element(input: Value) -> Any:
    """Return the value that the optional holds; a value that is no optional is returned unchanged.

    Raises InvalidModelError for an empty optional.
    """
    if input is EMPTY_OPTIONAL:
        raise InvalidModelError("the optional is empty: it has no element")
    return input

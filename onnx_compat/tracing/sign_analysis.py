"""Find integer tensors that are never negative. As indices, they need no conversion from counting from the end."""

from typing import Dict

from onnx_compat.ir import Arg, Const, Extents, Node, Ref, dims
from onnx_compat.tracing.values import Tensor

__all__ = ["is_nonnegative_tensor"]

#: Primitives whose results are elements of their first argument.
_MOVING = frozenset(
    "reshape transpose broadcast_to slice take tile reverse take_along gather_nd concat extents".split()
)
#: Primitives whose results are not negative if no argument is. (A sum that overflows is no valid index.)
_PRESERVING = frozenset("add mul floordiv minimum cumsum reduce_sum reduce_prod".split())
_MOST_VALUES = 64  # the analysis of a long computation gives up after this number of values


def is_nonnegative_tensor(x: Tensor) -> bool:
    """Whether no element of a tensor can be negative: by its values, its sizes, or the primitives that compute it.

    The elements must be numbers. True for a known tensor without elements, and for unsigned and bool dtypes. False also
    if no proof was found. No proof is found for a run-time float, or if it needs more than 64 run-time values.
    """
    if x.value is None:
        return _is_nonnegative(x.ref, {})
    if x.known:
        return x.value.size == 0 or bool(x.value.min() >= 0)
    return all(map(dims.is_nonnegative, x.value.reshape(-1)))


def _is_nonnegative(arg: Arg, known: Dict[Ref, bool]) -> bool:
    """Whether no element of an integer or bool argument can be negative. A tuple: whether this holds for each item.

    False if it cannot be proved, and for other dtypes. `known` caches the answers for run-time values. When it has 64
    entries, no further values are examined, and False is returned for them.
    """
    if isinstance(arg, tuple):
        return all(_is_nonnegative(item, known) for item in arg)
    if isinstance(arg, Const):
        return arg.spec.dtype.kind in "iub" and (arg.array.size == 0 or bool(arg.array.min() >= 0))
    if isinstance(arg, Extents):
        return all(map(dims.is_nonnegative, arg.dims))
    if not isinstance(arg, Ref) or arg.spec.dtype.kind not in "iub":
        return False
    if arg not in known and len(known) < _MOST_VALUES:
        known[arg] = arg.spec.dtype.kind in "ub"
        if arg.node is not None and not known[arg]:
            known[arg] = _gives_nonnegative(arg.node, known)
    return known.get(arg, False)


def _gives_nonnegative(node: Node, known: Dict[Ref, bool]) -> bool:
    """Whether the primitive of a node and its arguments prove that the first result is never negative."""
    name, args = node.primitive, node.args
    if name in _MOVING:
        return _is_nonnegative(args[0], known)
    if name in _PRESERVING:
        return _is_nonnegative(args, known)
    if name == "mod":  # the result has the sign of the divisor
        return _is_nonnegative(args[1], known)
    if name == "maximum":
        return any(_is_nonnegative(operand, known) for operand in args)
    if name == "where":
        return _is_nonnegative(args[1:], known)
    if name == "arange":
        return _is_nonnegative((args[0], args[2]), known)
    return name == "cast" and _is_widening(args[0], node.outputs[0]) and _is_nonnegative(args[0], known)


def _is_widening(before: Arg, after: Ref) -> bool:
    """Whether a cast of a run-time value provably keeps every integer that is not negative.

    True if an integer or bool is cast to a dtype with more bits, or with as many bits and the same kind. False if
    `before` is a constant.
    """
    if not isinstance(before, Ref) or before.spec.dtype.kind not in "iub":
        return False
    narrow, wide = before.spec.dtype, after.spec.dtype
    return wide.bits > narrow.bits or (wide.bits == narrow.bits and wide.kind == narrow.kind)

"""Which integers of a program are never negative: what counts places from the front needs no care for the others."""

from typing import Any, Dict

from onnx_compat.ir import Const, Extents, Node, Ref, dims
from onnx_compat.tracing.values import Tensor

__all__ = ["is_nonnegative_tensor"]

#: What gives nothing but elements of its first argument.
_MOVES = frozenset("reshape transpose broadcast_to slice take tile reverse take_along gather_nd concat extents".split())
#: What gives nothing negative of arguments that are not. (What overflows is no place of anything.)
_HOLDS = frozenset("add mul floordiv minimum cumsum reduce_sum reduce_prod".split())
_MANY = 64  # values that are looked at, of a long computation


def is_nonnegative_tensor(x: Tensor) -> bool:
    """Whether no element can be, provably, from how they were made."""
    if x.value is None:
        return _told(x.ref, {})
    if x.known:
        return x.value.size == 0 or bool(x.value.min() >= 0)
    return all(map(dims.is_nonnegative, x.value.reshape(-1)))


def _told(arg: Any, known: Dict[Ref, bool]) -> bool:
    if isinstance(arg, tuple):
        return all(_told(one, known) for one in arg)
    if isinstance(arg, Const):
        return arg.spec.dtype.kind in "iub" and (arg.array.size == 0 or bool(arg.array.min() >= 0))
    if isinstance(arg, Extents):
        return all(map(dims.is_nonnegative, arg.dims))
    if not isinstance(arg, Ref) or arg.spec.dtype.kind not in "iub":
        return False
    if arg not in known and len(known) < _MANY:
        known[arg] = arg.spec.dtype.kind in "ub"
        if arg.node is not None and not known[arg]:
            known[arg] = _made(arg.node, known)
    return known.get(arg, False)


def _made(node: Node, known: Dict[Ref, bool]) -> bool:
    name, args = node.primitive, node.args
    if name in _MOVES:
        return _told(args[0], known)
    if name in _HOLDS:
        return _told(args, known)
    if name == "mod":  # which has the sign of what divides
        return _told(args[1], known)
    if name == "maximum":
        return any(_told(one, known) for one in args)
    if name == "where":
        return _told(args[1:], known)
    if name == "arange":
        return _told((args[0], args[2]), known)
    return name == "cast" and _widened(args[0], node.outputs[0]) and _told(args[0], known)


def _widened(before: Any, after: Ref) -> bool:
    """Whether a type holds all that the other one does; else a number may become another one."""
    if not isinstance(before, Ref) or before.spec.dtype.kind not in "iub":
        return False
    narrow, wide = before.spec.dtype, after.spec.dtype
    return wide.bits > narrow.bits or (wide.bits == narrow.bits and wide.kind == narrow.kind)

"""Refuse tensors that no process can address: frameworks end the process if a number of elements exceeds 64 bits."""

from typing import Any, Iterable, Mapping, Sequence

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import Arg, Const, Ref, Spec
from onnx_compat.ir.dims import Dim
from onnx_compat.ir.window import Window

__all__ = ["check_addressable"]

#: The bytes of the address space of a process on 64-bit processors.
MOST_BYTES = 1 << 47


def check_addressable(specs: Iterable[Spec], args: Sequence[Arg], params: Mapping[str, Any], layout: str) -> None:
    """Raise UnsupportedError if a tensor of a type in `specs`, or the padded image of a window, exceeds `MOST_BYTES`.

    `args` and `params`: the arguments and the parameters of the primitive. If the parameter "window" is a `Window`, the
    first argument is an image in this `layout`. Kernels may store it with its padding. A symbolic size counts as the
    lower bound that `_least` gives, and a size below 1 as 1.
    """
    for spec in specs:
        _check(spec.shape, spec, "a tensor")
    window = params.get("window")
    if isinstance(window, Window) and args and isinstance(args[0], (Ref, Const)):
        sizes = list(args[0].spec.shape)
        first = 1 if layout == "channels_last" else 2
        for axis, (low, high) in enumerate(window.pads, first):
            sizes[axis] = _least(sizes[axis]) + _least(low) + _least(high)
        _check(sizes, args[0].spec, "a padded image")


def _check(sizes: Sequence[Any], spec: Spec, subject: str) -> None:
    total = max(spec.dtype.bits // 8, 1)
    for size in sizes:
        total *= max(_least(size), 1)
    if total > MOST_BYTES:
        raise UnsupportedError(
            "%s of the sizes %s takes at least %.3g GB, more than a process can address"
            % (subject, [str(size) for size in sizes], total / 1e9),
            hint="check the sizes, the pads and the strides of the node",
        )


def _least(size: Any) -> int:
    """Return a lower bound of a size: 5 -> 5, and n + 2 -> 2 if n is the length of an axis.

    Return 0 for an unknown size, and for a symbolic size that has a negative factor or an atom that is no length.
    """
    if not isinstance(size, Dim):
        return size if isinstance(size, int) else 0
    if any(factor < 0 and monomial for monomial, factor in size.terms.items()):
        return 0
    if any(atom.kind != "axis" for monomial in size.terms for atom in monomial):
        return 0
    return size.terms.get((), 0)

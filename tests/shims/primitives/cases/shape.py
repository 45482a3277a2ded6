"""Cases of the primitives that move, repeat, concatenate or slice data."""

from typing import Any, List

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir.dtypes import DType


def _product(sizes: Any) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


@case("reshape")
def reshape(make: Making) -> Any:
    make.feed(make.values(make.shape()))
    form = make.choose(["flat", "ends", "ones", "merged"])
    make.note(form=form)

    def apply(x: Any) -> Any:
        sizes = list(x.shape)
        target: List[Any] = {
            "flat": lambda: [_product(sizes)],
            "ends": lambda: [1, *sizes, 1],
            "ones": lambda: [*sizes[:1], 1, 1, *sizes[1:]],
            "merged": lambda: [_product(sizes[:2]), 1, *sizes[2:]],
        }[form]()
        return primitives.reshape(x, target)

    return apply


@case("transpose")
def transpose(make: Making) -> Any:
    shape = make.shape(low=1)
    make.feed(make.values(shape))
    params = make.note(perm=make.order(len(shape)))
    return lambda x: primitives.transpose(x, **params)


@case("broadcast_to")
def broadcast_to(make: Making) -> Any:
    full = make.shape()
    narrow = make.narrow(full)
    lead = [make.number(0, 3) for _ in range(make.number(0, 1))]
    make.feed(make.values(narrow), known=[k for k, size in enumerate(narrow) if size == 1])
    first = len(full) - len(narrow)
    make.note(full=full, lead=lead)

    def apply(x: Any) -> Any:
        rest = [there if here == 1 else size for there, here, size in zip(full[first:], narrow, x.shape)]
        return primitives.broadcast_to(x, [*lead, *full[:first], *rest])

    return apply


@case("concat")
def concat(make: Making) -> Any:
    shape = list(make.shape(low=1))
    axis = make.number(0, len(shape) - 1)
    pieces = []
    for k in range(make.number(2, 3)):
        if k:
            shape[axis] = make.number(0, 3)
        pieces.append(make.values(tuple(shape)))
    make.note(axis=axis)
    parts = [make.feed_or_fix(piece) if k else None for k, piece in enumerate(pieces)]
    first = make.feed(pieces[0])
    return lambda *tensors: primitives.concat([part(tensors) if part else tensors[first] for part in parts], axis)


_BOUNDS = [
    (0, None, 1),
    (1, 3, 1),
    (-2, None, 1),
    (0, -1, 1),
    (0, 99, 2),
    (-1, None, -1),
    (3, 0, -1),
    (2, 2, 1),
    (4, 1, -2),
]


@case("slice")
def slice(make: Making) -> Any:
    shape = make.shape(low=1)
    make.feed(make.values(shape))
    starts, ends, steps = zip(*[make.choose(_BOUNDS) for _ in shape])
    params = make.note(starts=starts, ends=ends, steps=steps)
    return lambda x: primitives.slice(x, **params)


@case("reverse")
def reverse(make: Making) -> Any:
    shape = make.shape(low=1)
    make.feed(make.values(shape))
    params = make.note(axes=make.order(len(shape))[: make.number(1, len(shape))])
    return lambda x: primitives.reverse(x, **params)


@case("tile")
def tile(make: Making) -> Any:
    shape = make.shape(low=1)
    make.feed(make.values(shape))
    params = make.note(repeats=[make.number(0, 3) for _ in shape])
    return lambda x: primitives.tile(x, **params)


@case("pad")
def pad(make: Making) -> Any:
    mode = make.choose(["constant", "constant", "edge", "reflect", "wrap"])
    shape = make.shape(low=1, least=0 if mode == "constant" else 1)
    most = [{"edge": 3, "constant": 3, "reflect": size - 1, "wrap": size}[mode] for size in shape]
    params = make.note(
        before=[make.number(0, bound) for bound in most], after=[make.number(0, bound) for bound in most], mode=mode
    )
    position = make.feed(make.values(shape))
    value = make.feed_or_fix(make.values(()))
    if mode != "constant":
        return lambda *tensors: primitives.pad(tensors[position], **params)
    return lambda *tensors: primitives.pad(tensors[position], value=value(tensors), **params)


@case("arange")
def arange(make: Making) -> Any:
    make.exact = make.dtype.kind == "i"
    start, step = make.number(-5, 5), make.choose([1, 2, -1, -3])
    # An empty range stops at the start, or before it, where the step leads away from the stop.
    count = make.choose([0, -1, -3]) if make.flavour.shape == "empty" else make.number(1, 6)
    scale = DType.of(make.dtype).numpy.type(0.5 if make.dtype.kind == "f" else 1)
    stop = start + step * count
    positions = [make.feed(np.asarray(value, make.dtype.numpy) * scale) for value in (start, stop)]
    stride = make.feed_or_fix(np.asarray(np.asarray(step, make.dtype.numpy) * scale))
    return lambda *tensors: primitives.arange(tensors[positions[0]], tensors[positions[1]], stride(tensors))

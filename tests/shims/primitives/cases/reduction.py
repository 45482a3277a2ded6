"""Cases of the primitives that combine elements along axes."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives


@case("reduce_sum reduce_mean reduce_max reduce_min reduce_prod")
def reduction(make: Making) -> Any:
    whole = make.dtype.kind in "iu" and make.name == "reduce_mean"
    shape = make.shape(low=1, least=1 if whole else 0)
    ordered = make.name in ("reduce_max", "reduce_min")
    if make.dtype.kind == "f" and not ordered and make.flavour.values == "extreme":
        array = make.values(shape, values="plain")
    else:
        array = make.values(shape, values="plain" if whole else None)
    if make.dtype.kind == "f" and make.dtype.bits == 16 and not ordered and make.flavour.values != "special":
        # Sums of multiples of 1/2 are exact in every order: frameworks accumulate 16 bits with different roundings.
        array = (np.round(2 * np.clip(array.astype(np.float32), -2, 2)) / 2).astype(array.dtype)
    if make.name == "reduce_prod" and make.dtype.kind == "f":
        array = make.within(shape, 0.5, 1.5)
    axes = make.choose([None, [0], [-1], list(range(len(shape))), make.order(len(shape))[:2]])
    params = make.note(axes=axes, keepdims=make.yes())
    make.feed(array)
    return lambda x: getattr(primitives, make.name)(x, **params)


@case("softmax log_softmax")
def softmax(make: Making) -> Any:
    shape = make.shape(low=1)
    params = make.note(axis=make.number(-len(shape), len(shape) - 1))
    special = make.flavour.values == "special"
    array = make.values(shape, values="plain" if special else None)
    if special:  # what a mask is made of; a row that is nothing else, or has NaN or inf, is left open
        array = make.mix(array, [-np.inf, 0.0, make.dtype.min]).astype(array.dtype)
        array[(slice(None),) * (params["axis"] % len(shape)) + (0,)] = 1
    make.feed(array)
    return lambda x: getattr(primitives, make.name)(x, **params)

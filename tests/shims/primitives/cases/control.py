"""Cases of the primitives for branches and loops."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir.dtypes import bool_, float32, int64


@case("cond")
def cond(make: Making) -> Any:
    make.feed(np.asarray(make.yes()), bool_)
    make.feed(make.values(make.shape(low=1), float32, values="plain"), float32)
    grows = make.yes()
    make.note(grows=grows)

    def apply(pred: Any, x: Any) -> Any:
        second = primitives.concat([x, x], 0) if grows else primitives.neg(x)
        return primitives.cond(pred, lambda: [primitives.add(x, 1), primitives.mul(x, x)], lambda: [second, x])

    return apply


@case("while_loop")
def while_loop(make: Making) -> Any:
    make.feed(np.asarray(make.number(0, 4), np.int64), int64)
    make.feed(make.values(make.shape(low=1, least=1), float32, values="plain"), float32)
    grows = make.yes()
    make.note(grows=grows)

    def apply(count: Any, x: Any) -> Any:
        def going_on(k: Any, _: Any) -> Any:
            return primitives.less(k, count)

        def body(k: Any, y: Any) -> Any:
            larger = primitives.concat([y, x], 0) if grows else primitives.add(primitives.mul(y, 0.5), x)
            return [primitives.add(k, 1), larger]

        return primitives.while_loop(going_on, body, [primitives.sub(count, count), x])

    return apply


@case("scan")
def scan(make: Making) -> Any:
    steps = make.number(2, 5)
    inner = (make.number(1, 3),)
    make.feed(make.values(inner, float32, values="plain"), float32)
    make.feed(make.values((steps, *inner), float32, values="plain"), float32)
    reverse = make.yes()
    make.note(reverse=reverse)

    def apply(state: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            total = primitives.add(total, x)
            return [total, primitives.mul(total, state), primitives.less(total, 0.0)]

        return primitives.scan(body, [state], [xs], xs.shape[0], reverse)

    return apply


@case("gradient")
def gradient(make: Making) -> Any:
    shape = make.shape(low=1)
    make.feed(make.values(shape, float32, values="plain"), float32)
    make.feed(make.values(shape, float32, values="plain"), float32)
    make.feed(np.asarray(make.number(0, 4), np.int64), int64)

    def apply(x: Any, y: Any, unused: Any) -> Any:
        def body(x: Any, z: Any, _: Any) -> Any:
            return primitives.mul(primitives.add(primitives.mul(x, x), primitives.mul(y, 0.5)), primitives.tanh(z))

        return primitives.gradient(body, [x, y, unused])

    return apply

"""From one element type to another."""

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.dtypes import DType
from onnx_compat.errors import UnsupportedError
from onnx_compat.ops.registry import op
from onnx_compat.value import Tensor


@op("Cast", since=1)
def cast_1(input: Tensor, *, to: str) -> Tensor:
    """The type by its name in TensorProto: FLOAT, DOUBLE, INT64 …"""
    return _cast(input, DType.of(to.lower()))


@op("Cast", since=(6, 9, 13))
def cast_13(input: Tensor, *, to: int) -> Tensor:
    return _cast(input, DType.of(to))


@op("Cast", since=(19, 21, 23))
def cast_23(input: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    return _cast(input, DType.of(to), bool(saturate))


@op("Cast", since=(24, 25, 28))
def cast(input: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return _cast(input, DType.of(to), bool(saturate), round_mode)


@op("CastLike", since=15)
def cast_like_15(input: Tensor, target_type: Tensor) -> Tensor:
    return _cast(input, target_type.dtype)


@op("CastLike", since=(19, 21, 23))
def cast_like_23(input: Tensor, target_type: Tensor, *, saturate: int = 1) -> Tensor:
    return _cast(input, target_type.dtype, bool(saturate))


@op("CastLike", since=(24, 25))
def cast_like(input: Tensor, target_type: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return _cast(input, target_type.dtype, bool(saturate), round_mode)


def _cast(x: Tensor, dtype: DType, saturate: bool = True, mode: str = "up") -> Tensor:
    if x.dtype == dtype:
        return x
    if dtype.kind == "s" or x.dtype.kind == "s":
        if not x.known:
            raise UnsupportedError("a Cast between strings and numbers is only done on known values yet")
        assert x.value is not None
        return Tensor(dtype, x.shape, _printed(x) if dtype.kind == "s" else _parsed(x.value, dtype))
    rounding = mode if dtype.name == "float8e8m0" else "nearest"
    if dtype.format is not None and x.known:
        assert x.value is not None
        return Tensor(dtype, x.shape, dtype.round(x.value, saturate, rounding))
    if dtype.format is not None and (not saturate or rounding != "nearest"):
        raise UnsupportedError("a Cast to %s that overflows or rounds its own way needs known values yet" % dtype.name)
    return p.cast(x, dtype)


def _printed(x: Tensor) -> np.ndarray:
    assert x.value is not None
    texts = np.empty(x.value.shape, object)
    for place in np.ndindex(*x.value.shape):
        texts[place] = str(x.value[place])
    return texts


def _parsed(texts: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers as Python writes them; an integer also from the text of a float."""
    read = float if dtype.kind == "f" else (lambda text: int(float(text)))
    values = np.asarray([read(text) for text in texts.reshape(-1)], dtype.numpy)
    return values.reshape(texts.shape)

"""All families of operators: importing this registers every meaning."""

from onnx_compat.ops import (
    activation,
    arithmetic,
    casting,
    constants,
    control,
    convolution,
    einsum,
    indexing,
    linear,
    logic,
    loss,
    mathematics,
    microsoft,
    normalization,
    optimizers,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    resize,
    sequences,
    shape,
    slicing,
    text,
    training,
)

__all__ = [name for name in dir() if not name.startswith("_")]

"""Primitives on image files."""

from onnx_compat.ir.dtypes import uint8
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift


@primitive("u")
def image_decode(data: TensorLike, channels: int) -> Tensor:
    """The image in the vector of bytes of a file, decoded to uint8 [height, width, channels].

    The format is BMP, JPEG, JPEG 2000, TIFF, PNG, WebP, PBM, PGM or PPM. `channels` is 3 (red, green, blue) or 1 (the
    luminance by ITU-R 601). Bytes that are not such a file give [0, 0, channels]. JPEG is decoded as libjpeg-turbo
    decodes it, with smooth chroma upsampling.
    """
    data = lift(data)
    folded = fold("image_decode", [data], [uint8], channels=channels)
    if folded is not None:
        return folded[0]
    return apply_primitive("image_decode", [current_trace().argument(data)], {"channels": channels})[0]

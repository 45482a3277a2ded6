"""Primitives on image files."""

from onnx_compat.ir.dtypes import uint8
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift


@primitive("u")
def image_decode(data: TensorLike, channels: int) -> Tensor:
    """The image in the bytes of a file, decoded to a uint8 tensor [height, width, channels].

    - data: a vector of bytes: BMP, JPEG, JPEG 2000, TIFF, PNG, WebP, PBM, PGM or PPM. Any other content, also a broken
      file, gives [0, 0, channels].
    - channels: 3 (red, green, blue) or 1 (the luminance by ITU-R 601).

    JPEG is decoded as by libjpeg-turbo, with smooth chroma upsampling. Folding raises MissingDependencyError without
    Pillow, and UnsupportedError for an image that is too large for Pillow.
    """
    data = lift(data)
    folded = fold("image_decode", [data], [uint8], channels=channels)
    if folded is not None:
        return folded[0]
    return apply_primitive("image_decode", [current_trace().argument(data)], {"channels": channels})[0]

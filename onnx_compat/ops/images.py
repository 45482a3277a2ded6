"""ImageDecoder: decode image files."""

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("ImageDecoder", since=20)
def image_decoder(encoded_stream: Tensor, *, pixel_format: str = "RGB") -> Tensor:
    """Decode the bytes of an image file to uint8 pixels [height, width, channels], with the channels of `pixel_format`.

    Grayscale has 1 channel; RGB and BGR have 3, in the order of their letters. Bytes that are no image give
    [0, 0, channels]. Raises InvalidModelError for another `pixel_format`.
    """
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise InvalidModelError("pixel_format is RGB, BGR or Grayscale, not %r" % pixel_format)
    image = p.image_decode(encoded_stream, 1 if pixel_format == "Grayscale" else 3)
    return p.reverse(image, [2]) if pixel_format == "BGR" else image

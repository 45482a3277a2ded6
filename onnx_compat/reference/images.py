"""Decode image files by Pillow, if it is installed."""

import importlib
import io
from typing import Any

import numpy as np

from onnx_compat.errors import MissingDependencyError, UnsupportedError
from onnx_compat.reference.arrays import Array

__all__ = ["ImageDecoding"]

#: The formats of ONNX alone: some of Pillow's other readers start programs.
_FORMATS = ["BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM"]


class ImageDecoding:
    """The primitive of `onnx_compat.primitives.images`, by Pillow."""

    def image_decode(self, data: Array, channels: int) -> Any:
        try:
            Image: Any = importlib.import_module("PIL.Image")
        except ImportError:
            raise MissingDependencyError(
                "decoding an image needs Pillow", hint="pip install 'onnx-compat[images]'"
            ) from None
        try:
            with Image.open(io.BytesIO(data.tobytes()), formats=_FORMATS) as image:
                pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
        except Image.DecompressionBombError as error:
            hint = "raise PIL.Image.MAX_IMAGE_PIXELS if the file can be trusted"
            raise UnsupportedError("the image is too large: %s" % error, hint=hint) from None
        except Exception:  # noqa: BLE001 (Pillow's readers raise classes of a dozen modules for a broken file)
            return np.zeros((0, 0, channels), np.uint8)
        return pixels.reshape((*pixels.shape[:2], channels))

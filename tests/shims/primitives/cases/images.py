"""Cases of `image_decode`, which decodes image files."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir.dtypes import uint8


@case("image_decode")
def image_decode(make: Making) -> Any:
    """Portable pixmaps and graymaps, complete and truncated, and bytes that are no image."""
    height, width = (1, 1) if make.flavour.shape == "ones" else (3, 5)
    pixels = make.within((height, width, 3), 0, 255, uint8)
    files = {
        "ppm": b"P6 %d %d 255\n" % (width, height) + pixels.tobytes(),
        "pgm": b"P5 %d %d 255\n" % (width, height) + pixels[:, :, :1].tobytes(),
        "cut off": b"P6 %d %d 255\n" % (width, height) + pixels.tobytes()[:-2],
        "noise": pixels.tobytes(),
    }
    kind = make.choose(sorted(files))
    channels = make.choose([1, 3])
    make.note(kind=kind, channels=channels)
    data = b"" if make.flavour.shape == "empty" else files[kind]
    make.feed(np.frombuffer(data, np.uint8), uint8)
    return lambda x: primitives.image_decode(x, channels)

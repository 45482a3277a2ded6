"""Read calibration data from image files, with Pillow."""

import importlib
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence, Tuple

import numpy as np

from onnx_compat.errors import InputError
from onnx_compat.model import TensorType, ValueInfo

__all__ = ["SUFFIXES", "Images"]

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


class Images(NamedTuple):
    """A folder of images as calibration data.

    Each image is resized to the size of the model's only input. For a float32 input, the pixels are scaled to 0..1,
    then `mean` is subtracted, and the difference is divided by `std`. For a uint8 input, the pixels stay in 0..255, and
    `mean` and `std` are not applied.

    Attributes:
        folder: The path of the folder.
        mean: One number for all channels, or one number for each channel.
        std: One number for all channels, or one number for each channel.

    Examples:
        >>> from onnx_compat.calibration import Images
        >>> Images("photos", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)).folder
        'photos'
    """

    folder: str
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)

    def read(self, declared: Sequence[ValueInfo]) -> Iterator[Tuple[str, Any]]:
        """Yield (quoted file name, {input name: array}) for each image file in the folder, sorted by file name.

        `declared` has the model's inputs. The array has the layout and dtype of the input, with a batch size of 1.
        Files whose suffix is not in `SUFFIXES`, pipes and devices are ignored.

        An image raises the errors of `_load_pixels` when it is reached. The first item raises `InputError` in these
        cases:

        - The model does not have exactly one input, or this input is no image (see `_find_image_input`).
        - `folder` is no folder.
        - `std` has a 0.
        - `mean` or `std` has neither 1 entry nor as many entries as the image has channels.
        """
        name, is_integer, channels_first, (channels, height, width) = _find_image_input(declared)
        for attribute, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, channels) or (attribute == "std" and 0 in numbers):
                expected = "one number" if channels == 1 else "one number for all channels, or %d" % channels
                raise InputError(
                    "the %s of the images is %s" % (attribute, list(numbers)),
                    hint="give " + expected + ", and not 0" * (attribute == "std"),
                )
        if not Path(self.folder).is_dir():
            raise InputError("'%s' is no folder of images" % self.folder, hint="give the path of a folder")
        paths = sorted(path for path in Path(self.folder).iterdir() if path.suffix.lower() in SUFFIXES)
        for path in filter(Path.is_file, paths):
            pixels = _load_pixels(path, channels, height, width)
            if not is_integer:
                scaled = (pixels / 255 - np.asarray(self.mean)) / np.asarray(self.std)
                pixels = scaled.astype(np.float32)
            yield "'%s'" % path.name, {name: (np.moveaxis(pixels, 2, 0) if channels_first else pixels)[None]}


def _find_image_input(declared: Sequence[ValueInfo]) -> Tuple[str, bool, bool, Tuple[int, int, int]]:
    """Return the only input of a model, an image: (name, whether it is uint8, whether channels are first, sizes).

    The sizes are (channels, height, width). If the shape can be read in both layouts, the channels are first.

    Raises `InputError` unless all of this holds:

    - The model has one input only, of rank 4 and of dtype float32 or uint8.
    - The batch size is 1 or open. There are 1 or 3 channels. Height and width are known.
    """
    kind = declared[0].type if len(declared) == 1 else None
    if isinstance(kind, TensorType) and kind.shape is not None and kind.dtype is not None:
        sizes = [size if isinstance(size, int) else None for size in kind.shape]
        if len(sizes) == 4 and sizes[0] in (None, 1) and kind.dtype.name in ("float32", "uint8"):
            for channels_first, (channels, height, width) in ((True, sizes[1:]), (False, [sizes[3], *sizes[1:3]])):
                if channels in (1, 3) and height and width:
                    return declared[0].name, kind.dtype.name == "uint8", channels_first, (channels, height, width)
    inputs = ", ".join("'%s' %s" % (info.name, info.type) for info in declared)
    raise InputError(
        "images can calibrate a model whose only input is an image of float32 or uint8, with 1 or 3 channels (first or"
        " last) and a known height and width; the inputs of this model are %s" % inputs,
        hint="give arrays: a .npz file, or an iterable",
    )


def _load_pixels(path: Path, channels: int, height: int, width: int) -> Any:
    """Decode an image file and resize it bilinearly. Return a uint8 array [height, width, channels].

    `channels` is 1 (grey) or 3 (RGB). The ratio of the sides is not kept.

    - Raises OSError if the file cannot be opened.
    - Raises `InputError` if the content of the file is no readable image.
    - Raises `UnsupportedError` if the image has more pixels than Pillow accepts.
    - Raises `MissingDependencyError` without Pillow.
    """
    from onnx_compat.reference.images import ImageDecoding as Decoder

    decoded = Decoder().image_decode(np.fromfile(str(path), np.uint8), channels)
    if not decoded.size:
        raise InputError("'%s' is not a readable image" % path, hint="remove it from the folder")
    pillow: Any = importlib.import_module("PIL.Image")
    image = pillow.fromarray(decoded[:, :, 0] if channels == 1 else decoded)
    return np.asarray(image.resize((width, height), pillow.BILINEAR)).reshape(height, width, channels)

"""What `onnx-compat convert` is told about quantisation."""

import functools
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, cast

import click

__all__ = ["fed", "notes", "options"]

_F = TypeVar("_F", bound=Callable[..., Any])
_CALIBRATE = "The representative data for int8 and int16x8: a .npz or .npy file, or a folder of these or of images; or `generated`."


def _numbers(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[Tuple[float, ...]]:
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        raise click.BadParameter("%r is not a list of numbers, as in 0.5,0.5,0.5" % value, ctx, param) from error


def options(command: _F) -> _F:
    """--quantize, --calibrate, --mean, --std and --block-size; the command gets the images of a folder with both numbers."""

    @functools.wraps(command)
    def told(*args: Any, mean: Any, std: Any, **kwargs: Any) -> Any:
        if mean is not None or std is not None:
            kwargs["calibrate"] = _images(kwargs["calibrate"], mean, std)
        return command(*args, **kwargs)

    decorated: Any = told
    for name, text in (("std", "What that is divided by then, likewise. Default: 1."), ("mean", _MEAN)):
        decorated = click.option("--" + name, metavar="X[,X...]", callback=_numbers, help=text)(decorated)
    decorated = click.option("--block-size", type=int, metavar="N", help=_BLOCK)(decorated)
    decorated = click.option("--calibrate", metavar="DATA", help=_CALIBRATE)(decorated)
    decorated = click.option("--quantize", metavar="KIND", help=_KIND)(decorated)
    return cast(_F, decorated)


_KIND = (
    "float16, weights-int8, weights-int4, dynamic-int4 or dynamic (products of integers, float values), int8 or int16x8"
    " (all integers)."
)
_BLOCK = "How many weights share a scale, for weights-int8, weights-int4 and dynamic-int4. Default: those of an output channel."
_MEAN = (
    "For a folder of images, whose pixels are in 0..1: what is subtracted, for all channels or for each. Default: 0."
)


def _images(folder: Optional[str], mean: Any, std: Any) -> Any:
    from onnx_compat.calibration import Images
    from onnx_compat.errors import InputError

    if folder is None:
        raise InputError("--mean and --std are for images, and none are given", hint="--calibrate takes their folder")
    return Images(folder, (0.0,) if mean is None else mean, (1.0,) if std is None else std)


def notes(calibrate: Any) -> List[str]:
    """What must be known of a file that was calibrated with nothing."""
    from onnx_compat.calibration import GENERATED

    if calibrate == GENERATED:
        return ["calibrated with generated inputs: the file works, and its accuracy on real ones is not known"]
    return []


def fed(model: Any, inputs: Any, dims: Optional[Dict[str, int]], calibrate: Any) -> Tuple[Any, List[str]]:
    """The inputs to verify a file with, and what to say of them: a file that has learnt its ranges from data is not
    measured on generated inputs, whose ranges are others.
    """
    from onnx_compat import load
    from onnx_compat.calibration import GENERATED, batch

    if inputs is not None or dims or calibrate in (None, GENERATED):
        return inputs, []
    return batch(load(model), calibrate), ["verified on the first samples of the calibration data"]

"""The options of `onnx-compat convert` for quantisation."""

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union, cast

import click

if TYPE_CHECKING:
    from onnx_compat.calibration import Images

__all__ = ["Calibration", "calibration_notes", "options", "verification_inputs"]

_F = TypeVar("_F", bound=Callable[..., Any])
Numbers = Tuple[float, ...]
PORT_TYPES = ("float32", "int8", "uint8", "int16")
Calibration = Union[None, str, "Images"]
_CALIBRATE = (
    "Calibration data for int8 and int16x8: a .npz or .npy file, a folder of these or of images, or `generated`."
)


def _parse_numbers(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[Numbers]:
    """Parse numbers that are separated by commas to a tuple. None stays None; raise BadParameter for another form."""
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        raise click.BadParameter("%r is not a list of numbers, as in 0.5,0.5,0.5" % value, ctx, param) from error


def options(command: _F) -> _F:
    """Decorate a command with --quantize, --calibrate, --mean, --std, --block-size, --input-type and --output-type.

    The command gets the arguments `quantize`, `calibrate`, `block_size`, `input_type` and `output_type`. With --mean or
    --std, the argument `calibrate` is `Images(folder, mean, std)` instead of the folder. --mean or --std without
    --calibrate raises InputError when the command is called.
    """

    @functools.wraps(command)
    def with_images(*args: Any, mean: Optional[Numbers], std: Optional[Numbers], **kwargs: Any) -> Any:
        if mean is not None or std is not None:
            kwargs["calibrate"] = _images(kwargs["calibrate"], mean, std)
        return command(*args, **kwargs)

    decorated: Callable[..., Any] = with_images
    for name, text in (("std", _STD), ("mean", _MEAN)):
        decorated = click.option("--" + name, metavar="X[,X...]", callback=_parse_numbers, help=text)(decorated)
    for name, subject in (("output", "outputs"), ("input", "inputs")):
        port_type = click.option("--%s-type" % name, type=click.Choice(PORT_TYPES), help=_PORT_TYPE % subject)
        decorated = port_type(decorated)
    decorated = click.option("--block-size", type=click.IntRange(1), metavar="N", help=_BLOCK)(decorated)
    decorated = click.option("--calibrate", metavar="DATA", help=_CALIBRATE)(decorated)
    decorated = click.option("--quantize", metavar="KIND", help=_KIND)(decorated)
    return cast(_F, decorated)


_KIND = (
    "The kind of quantisation: float16, weights-int8 or weights-int4 (weights only), dynamic or dynamic-int4 (float"
    " activations, integer products), int8 or int16x8 (integers only)."
)
_BLOCK = (
    "The number of weights that share a scale, for weights-int8, weights-int4 and dynamic-int4. Default: the weights of"
    " an output channel."
)
_PORT_TYPE = (
    "The type of float32 %s in the file: int8 or uint8 with --quantize int8, int16 with int16x8. Default: float32."
)
_MEAN = (
    "With a folder of images, whose pixels are in 0..1: subtract this number, or a number for each channel. Default: 0."
)
_STD = "With a folder of images: divide by this number, or by a number for each channel, after --mean. Default: 1."


def _images(folder: Optional[str], mean: Optional[Numbers], std: Optional[Numbers]) -> "Images":
    from onnx_compat.calibration import Images
    from onnx_compat.errors import InputError

    if folder is None:
        raise InputError("--mean and --std need a folder of images", hint="name the folder with --calibrate")
    return Images(folder, (0.0,) if mean is None else mean, (1.0,) if std is None else std)


def calibration_notes(calibrate: Calibration) -> List[str]:
    """Return a list with a warning if the calibration data is "generated", else an empty list."""
    from onnx_compat.calibration import GENERATED

    if calibrate == GENERATED:
        return ["calibrated with generated inputs: the file works, but its accuracy on real inputs is unknown"]
    return []


def verification_inputs(
    model: str, inputs: Optional[str], dims: Optional[Dict[str, int]], calibrate: Calibration
) -> Tuple[Any, List[str]]:
    """Return (the inputs to verify a file with, a list of notes on these inputs for the user).

    - `calibrate` is given and not "generated", and neither `inputs` nor `dims` is given: the result of
      `calibration.batch`, a dict {input name: array}, and a note.
    - Otherwise: the argument `inputs` (a path or None) unchanged, and no note.

    Raises the errors of `load` and `calibration.batch`.
    """
    from onnx_compat import load
    from onnx_compat.calibration import GENERATED, batch

    if inputs is not None or dims or calibrate in (None, GENERATED):
        return inputs, []
    return batch(load(model), calibrate), ["verified on the first samples of the calibration data"]

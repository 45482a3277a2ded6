"""What a user asks for when a file is to be quantised, checked before anything is converted."""

import difflib
from typing import Any, Callable, Optional

import numpy as np

from onnx_compat.errors import ConversionError, InputError
from onnx_compat.model import Model
from onnx_compat.shim.interface import Quantization, Scheme, Shim

__all__ = ["choose_quantization"]


def choose_quantization(
    writer: Shim, form: str, source: Callable[[], Model], kind: Optional[str], data: Any, block: Any
) -> Optional[Quantization]:
    """How to quantise the model from a source; None: not at all."""
    if kind is None:
        if data is not None or block is not None:
            told = "calibration data" if data is not None else "a block size"
            takers = [
                one.kind for one in writer.schemes.get(form, ()) if (one.calibrated if data is not None else one.blocks)
            ]
            hint = "say how: %s" % " or ".join("quantize='%s'" % name for name in takers) if takers else "leave it out"
            raise ConversionError("%s is given, and nothing is to be quantised" % told, hint=hint)
        return None
    scheme = _scheme(writer, form, kind)
    if block is not None and (not scheme.blocks or not _is_size(block)):
        offered = [one.kind for one in writer.schemes[form] if one.blocks]
        raise ConversionError(
            "the kind '%s' takes no block size %r" % (kind, block),
            hint="give a positive number with %s" % " or ".join(map(repr, offered)),
        )
    return Quantization(scheme, _samples(scheme, source(), data), None if block is None else int(block))


def _is_size(block: Any) -> bool:
    return bool(isinstance(block, (int, np.integer)) and not isinstance(block, bool) and block > 0)


def _scheme(writer: Shim, form: str, kind: str) -> Scheme:
    offered = {one.kind: one for one in writer.schemes.get(form, ())}
    if not offered:
        raise ConversionError(
            "the format '%s' of the shim %s cannot be quantised" % (form, writer.name), hint="convert to '.tflite'"
        )
    if kind not in offered:
        close = difflib.get_close_matches(str(kind), offered, 1)
        hint = "did you mean '%s'? " % close[0] if close else ""
        kinds = "the kinds are %s" % ", ".join("'%s'" % name for name in offered)
        raise ConversionError("there is no quantisation of the kind %r" % (kind,), hint=hint + kinds)
    return offered[kind]


def _samples(scheme: Scheme, model: Model, data: Any) -> Any:
    from onnx_compat.calibration import samples

    if not scheme.calibrated:
        if data is not None:
            raise InputError(
                "the kind '%s' learns nothing from data" % scheme.kind, hint="leave the calibration data out"
            )
        return ()
    if data is None:
        raise InputError(
            "the kind '%s' learns the ranges of all values from representative data, and none is given" % scheme.kind,
            hint="calibrate= (--calibrate) takes a .npz file, a folder of images, a Python iterable of inputs; or"
            " 'generated', to try whether it works at all",
        )
    return samples(model, data)

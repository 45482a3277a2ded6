"""Quantisation options: check the arguments `quantize`, `calibrate`, `block_size`, `input_type` and `output_type` of
`convert`, before the conversion.
"""

import difflib
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from onnx_compat.errors import ConversionError, InputError
from onnx_compat.model import Model
from onnx_compat.shim.interface import Quantization, Scheme, Shim

__all__ = ["CalibrationData", "choose_quantization"]

#: Representative data, in any form that `onnx_compat.calibration` reads.
CalibrationData = Any
#: The number of weights that share a scale: an int or an integer of numpy.
BlockSize = Union[int, np.integer, None]


def choose_quantization(
    writer: Shim,
    file_format: str,
    source: Callable[[], Model],
    kind: Optional[str],
    data: CalibrationData,
    block_size: BlockSize,
    input_type: Optional[str] = None,
    output_type: Optional[str] = None,
) -> Optional[Quantization]:
    """Return the quantisation that the arguments of `convert` select. Return None if `kind` is None.

    - kind, data, block_size: the arguments `quantize`, `calibrate` and `block_size` of `convert`.
    - input_type, output_type: the arguments of `convert`, where "float32" means the same as None.
    - source: a function that returns the model. The samples in `data` must fit the model's inputs.

    Raises ConversionError in these cases:

    - The format lacks the kind.
    - Data, a block size or the dtype of inputs or outputs is given, but no kind.
    - The kind has no inputs and outputs of the dtype.
    - A block size is given, but the kind takes none, or the block size is no positive integer.

    Raises InputError if the kind needs data and none is given, or if data is given and the kind needs none. A sample
    that does not fit raises InputError later, when it is read.
    """
    port_types = [None if dtype in (None, "float32") else str(dtype) for dtype in (input_type, output_type)]
    if kind is None:
        _check_no_port_types(writer, file_format, port_types)
        if data is not None or block_size is not None:
            argument = "calibration data" if data is not None else "a block size"
            takers = [
                option.kind
                for option in writer.schemes.get(file_format, ())
                if (option.calibrated if data is not None else option.blocks)
            ]
            kinds = " or ".join("quantize='%s'" % name for name in takers)
            hint = "select a kind: %s" % kinds if takers else "leave it out"
            raise ConversionError("%s is given without a kind of quantisation" % argument, hint=hint)
        return None
    scheme = _find_scheme(writer, file_format, kind)
    if block_size is not None and (not scheme.blocks or not _is_size(block_size)):
        offered = [option.kind for option in writer.schemes[file_format] if option.blocks]
        raise ConversionError(
            "the kind '%s' takes no block size %r" % (kind, block_size),
            hint="give a positive number with %s" % " or ".join(map(repr, offered)),
        )
    for dtype in filter(None, port_types):
        _check_port_type(scheme, dtype)
    block = None if block_size is None else int(block_size)
    return Quantization(scheme, _samples(scheme, source(), data), block, *port_types)


def _check_no_port_types(writer: Shim, file_format: str, port_types: Sequence[Optional[str]]) -> None:
    """Raise ConversionError for a dtype of inputs or outputs without a kind of quantisation."""
    dtype = next(filter(None, port_types), None)
    if dtype is not None:
        schemes = writer.schemes.get(file_format, ())
        kinds = " or ".join("quantize='%s'" % scheme.kind for scheme in schemes if dtype in scheme.port_types)
        raise ConversionError(
            "inputs and outputs are %s only in a file that is quantised" % dtype,
            hint="select a kind: %s" % kinds if kinds else "leave it out",
        )


def _check_port_type(scheme: Scheme, dtype: str) -> None:
    """Raise ConversionError if inputs and outputs of the scheme cannot have this dtype."""
    if dtype not in scheme.port_types:
        offered_types = ", ".join("'%s'" % name for name in ("float32", *scheme.port_types))
        raise ConversionError(
            "the kind '%s' has no inputs and outputs of %s" % (scheme.kind, dtype), hint="it has %s" % offered_types
        )


def _is_size(block_size: BlockSize) -> bool:
    return bool(isinstance(block_size, (int, np.integer)) and not isinstance(block_size, bool) and block_size > 0)


def _find_scheme(writer: Shim, file_format: str, kind: str) -> Scheme:
    """Return the scheme of a kind. Raises ConversionError if the writer has no such scheme for the format."""
    offered = {scheme.kind: scheme for scheme in writer.schemes.get(file_format, ())}
    if not offered:
        raise ConversionError(
            "the format '%s' of the shim %s cannot be quantised" % (file_format, writer.name),
            hint="convert to '.tflite'",
        )
    if kind not in offered:
        close = difflib.get_close_matches(str(kind), offered, 1)
        hint = "did you mean '%s'? " % close[0] if close else ""
        kinds = "the kinds are %s" % ", ".join("'%s'" % name for name in offered)
        raise ConversionError("there is no quantisation of the kind %r" % (kind,), hint=hint + kinds)
    return offered[kind]


def _samples(scheme: Scheme, model: Model, data: CalibrationData) -> Iterable[Mapping[str, Any]]:
    """Return the calibration samples for a scheme, each {input name: array}; () if the scheme needs no calibration.

    The samples are read while the result is iterated. The result can be iterated once.

    Raises InputError at the call if the scheme needs data and `data` is None, or needs no data and `data` is given. The
    errors of `calibration.samples` are raised by the iteration.
    """
    from onnx_compat.calibration import samples

    if not scheme.calibrated:
        if data is not None:
            raise InputError(
                "the kind '%s' uses no calibration data" % scheme.kind, hint="leave the calibration data out"
            )
        return ()
    if data is None:
        raise InputError(
            "the kind '%s' needs representative data for the ranges of its values, and none is given" % scheme.kind,
            hint="calibrate= (--calibrate) takes a .npz file, a folder of images, a Python iterable of inputs; or"
            " 'generated', to try whether it works at all",
        )
    return samples(model, data)

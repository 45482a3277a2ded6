"""The options of a conversion to ONNX, and their check.

The module imports nothing of `retarget`, because conversions to other formats use the module too.
"""

from typing import Any, List, Optional, Sequence

from onnx_compat.errors import ConversionError, InputError

__all__ = ["OnnxOptions", "check_onnx_options", "reject_onnx_options"]


class OnnxOptions:
    """The options of a conversion to ONNX. See `onnx_compat.convert`.

    Attributes:
        opset: The version of ai.onnx; None: that of the source.
        ir_version: The version of the file format; None: it follows from the opset.
        inline_functions: Whether all functions of the model are inlined. If False, a function is inlined only where the
            target cannot hold it.
        external_data: Where the weights are stored: a file name, "safetensors" or "keep". None: inside the file, or in
            data files as the source has them.
        simplify: Whether the model is simplified first.
        verify: Whether the result is run beside the source.
    """

    def __init__(
        self,
        opset: Optional[int] = None,
        ir_version: Optional[int] = None,
        inline_functions: bool = False,
        external_data: Optional[str] = None,
        simplify: bool = False,
        verify: bool = True,
    ) -> None:
        self.opset = opset
        self.ir_version = ir_version
        self.inline_functions = inline_functions
        if external_data is not None and not isinstance(external_data, str):
            raise InputError(
                "external_data is a %s, not a text" % type(external_data).__name__,
                hint="give the name of a file, 'safetensors' or 'keep'; without it, weights stay as the source has them",
            )
        self.external_data = external_data
        self.simplify = simplify
        self.verify = verify

    @property
    def given(self) -> List[str]:
        """The names of the options that differ from their defaults: other formats do not have them."""
        defaults = vars(OnnxOptions())
        return [name for name, value in vars(self).items() if value != defaults[name]]


def reject_onnx_options(given: Sequence[str], file_format: str) -> None:
    """Raise ConversionError if `given` is not empty. Otherwise do nothing.

    - given: the names of the options of .onnx files that the user gave (see `OnnxOptions.given`).
    - file_format: the format of the conversion, which lacks these options, such as "tflite".
    """
    if given:
        reason = "the option '%s' is for .onnx files, not for the format '%s'" % (given[0], file_format)
        hint = "leave it out, or write a path that ends in .onnx"
        if file_format == "onnx":
            reason = "the option '%s' is for the nodes of the model, not for a traced program" % given[0]
            hint = "leave it out, or leave out shim='onnx' (--shim onnx)"
        raise ConversionError(reason, hint=hint)


def check_onnx_options(bundled: bool, **framework_options: Any) -> None:
    """Raise ConversionError if a conversion to an .onnx file has an argument that is only for files of frameworks.

    - bundled: whether a bundle is to be written.
    - framework_options: option name -> value. The values None, False, () and [] stand for an option that is not given.
    """
    if bundled:
        raise ConversionError("an .onnx file holds every model: there is no bundle of it", hint="leave the .zip out")
    defaults: Sequence[Any] = (None, False, (), [])
    given = [
        name
        for name, value in framework_options.items()
        if not any(type(value) is type(default) and value == default for default in defaults)
    ]
    if given:
        reason = "the option '%s' is for files of frameworks, not for .onnx files" % given[0]
        raise ConversionError(reason, hint="leave it out")

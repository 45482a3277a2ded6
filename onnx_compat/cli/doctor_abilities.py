"""List the tasks that are possible in this environment, and the others: rows that `onnx-compat doctor` prints."""

import sys
from typing import TYPE_CHECKING, List, NamedTuple, Optional, Sequence

from onnx_compat.conversion.convert import formats
from onnx_compat.discovery import environment, selection
from onnx_compat.discovery.missing_shims import how_to_get
from onnx_compat.discovery.offers import OFFERS

if TYPE_CHECKING:
    from onnx_compat.discovery.selection import ShimInfo

__all__ = ["Ability", "list_abilities"]


class Ability(NamedTuple):
    """A task, whether it can be done here, and with what. `hint`: what to do to make it possible; None if it is."""

    task: str
    possible: bool
    by: str
    hint: Optional[str] = None


#: Format -> the task, and the shim of the library that writes the format.
_FORMATS = {
    "tflite": ("write and run .tflite files", "tflite"),
    "keras": ("write and run .keras files", "keras"),
    "saved_model": ("write and run SavedModels", "tf2"),
    "graphdef": ("write and run frozen graphs (.pb)", "tf1"),
}
#: The quantiser requires the newest release of this framework.
_QUANTIZED_WITH = "ai-edge-litert"


def list_abilities(shims: "Sequence[ShimInfo]") -> List[Ability]:
    """Return the abilities of this environment, in the order in which a user meets them. `shims`: all installed."""
    working = [info.name for info in shims if info.available]
    abilities = [Ability("run ONNX models", bool(working), ", ".join(working))]
    for format_name, (task, shim) in _FORMATS.items():
        writers = [name for name in working if format_name in _formats_of(name)]
        hint = None if writers else how_to_get(shim)
        abilities.append(Ability(task, bool(writers), ", ".join(writers), hint))
    tflite = abilities[1]
    quantizer = _package(
        "quantise to dynamic, int8 and int16x8", "ai_edge_quantizer", "pip install 'onnx-compat[quantize]'"
    )
    pythons = [offer.pythons for offer in OFFERS if offer.framework == _QUANTIZED_WITH][-1]
    if not quantizer.possible and "%d.%d" % sys.version_info[:2] not in pythons:
        quantizer = quantizer._replace(hint="use Python %s" % environment.python_range(pythons))
    if quantizer.possible and not tflite.possible:
        quantizer = quantizer._replace(possible=False, by="", hint=tflite.hint)
    return [
        *abilities,
        quantizer,
        _package("calibrate with images", "PIL", "pip install 'onnx-compat[images]'"),
        _package("compare with onnxruntime", "onnxruntime", "pip install 'onnx-compat[onnxruntime]'"),
    ]


def _formats_of(shim: str) -> Sequence[str]:
    return list(formats(shim)) if shim in selection.installed_shims() else []


def _package(task: str, module: str, hint: str) -> Ability:
    """Return the ability that an installed package gives. The package is not imported."""
    if environment.find_module(module) is None:
        return Ability(task, False, "", hint)
    distribution = environment.distribution_of(module)
    return Ability(task, True, module if distribution is None else str(distribution))

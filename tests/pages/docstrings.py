"""Check the sections of public docstrings, and run their examples in a folder that holds the model `digits.onnx`."""

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np

import onnx_compat
from onnx_compat import errors
from onnx_compat.calibration import Images
from onnx_compat.discovery.selection import ShimInfo
from onnx_compat.execution.outputs import Outputs
from onnx_compat.execution.support import NodeSupport
from onnx_compat.training import Progress, Trainer, make_trainable, prepare_training, step_model
from onnx_compat.verification import Report

__all__ = ["CONVERTING", "missing_sections", "public", "run"]

#: Objects whose examples write files, so they need the shim for TFLite.
CONVERTING = ("convert", "join", "load_converted")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> Dict[str, Any]:
    """Return name -> object for every object of the API that the reference documents."""
    objects = {name: getattr(onnx_compat, name) for name in onnx_compat.__all__}
    objects.update({name: getattr(errors, name) for name in errors.__all__})
    objects.update({item.__name__: item for item in (Images, NodeSupport, Outputs, Report, ShimInfo)})
    training = (Progress, Trainer, make_trainable, prepare_training, step_model)
    objects.update({item.__name__: item for item in training})
    return dict(sorted(objects.items()))


def missing_sections(name: str, item: Any) -> List[str]:
    """Return the names of what the docstring of an object lacks: sections, parameters, an example."""
    text = inspect.getdoc(item) or ""
    missing = [] if "Examples:" in text else ["Examples"]
    if inspect.isclass(item):
        return missing
    parameters = list(inspect.signature(item).parameters)
    if parameters and "Args:" not in text:
        missing.append("Args")
    missing += [parameter for parameter in parameters if "\n    %s: " % parameter not in text]
    return missing + ["Returns"] * ("Returns:" not in text)


def run(name: str, item: Any, folder: Path) -> int:
    """Run the examples of an object in `folder`, and return their number. Raise an error for a wrong output."""
    maker = str(Path(__file__).parents[2] / "examples" / "make_model.py")
    subprocess.run([sys.executable, maker, "digits.onnx"], cwd=str(folder), check=True, stdout=subprocess.DEVNULL)
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(item, name, module=False, globs={"onnx_compat": onnx_compat, "np": np})
    runner = doctest.DebugRunner(optionflags=_FLAGS)
    return int(runner.run(test).attempted)

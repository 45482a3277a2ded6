"""The ReferenceEvaluator of onnx as a peer."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Union

from onnx.reference import ReferenceEvaluator

__all__ = ["LEAKS", "PACKAGES", "REFUSED", "prepare"]

LEAKS = False
PACKAGES = ("onnx", "numpy", "ml_dtypes")
REFUSED = ("^NotImplementedError", "^RuntimeImplementationError: No registered implementation")


def prepare(model: Union[str, bytes]) -> Callable[[Dict[str, Any]], Sequence[Any]]:
    """Return a function from inputs by name to the outputs of the model. `model`: a path or bytes."""
    evaluator = ReferenceEvaluator(model)

    def run(inputs: Dict[str, Any]) -> Sequence[Any]:
        return list(evaluator.run(None, inputs))

    return run

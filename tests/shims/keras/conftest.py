"""Fixtures of the tests of the keras shim: the cases of the primitives, and a function that calls a Keras model."""

from pathlib import Path
from typing import Any, Callable, List, Sequence

import numpy as np
import pytest

from matrix.by_path import import_package

keras = pytest.importorskip("keras")
pytest.importorskip("onnx_compat_keras")

CASES = Path(__file__).parents[1] / "primitives" / "cases"
import_package(CASES)


@pytest.fixture(scope="session")
def call_model() -> Callable[[Any, Sequence[np.ndarray]], List[np.ndarray]]:
    """Return a function that calls a Keras model with 64-bit types enabled."""
    from onnx_compat_keras.features import wide

    def call(model: Any, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        with wide():
            outputs = model(arrays[0] if len(arrays) == 1 else list(arrays), training=False)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            return [np.asarray(keras.ops.convert_to_numpy(output)) for output in outputs]

    return call

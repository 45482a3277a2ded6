"""Calibration of files by hand: the ranges of their float tensors."""

from pathlib import Path

import numpy as np
import pytest
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.quantize.ranges import measure_ranges


def test_a_model_without_inputs_is_measured(tmp_path: Path) -> None:
    numbers = np.asarray([-1, 2], np.float32)
    tensors = [fb.TensorSpec("c", "float32", (2,), numbers), fb.TensorSpec("y", "float32", (2,))]
    model = fb.ModelSpec([fb.SubGraph(tensors, [fb.OperatorSpec("ABS", [0], [1])], [], [1])])
    path = str(tmp_path / "m.tflite")
    fb.write(model, path)
    runtime, _ = features.find_runtime()
    assert runtime is not None
    assert measure_ranges(path, model, [{}, {}], runtime).limits[1] == pytest.approx((1, 2))

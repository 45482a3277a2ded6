"""Large weights: shared with a session, and refused in a file that cannot hold them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.window import Window
from onnx_compat.onnx_shim import emission
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.runtime import can_share
from onnx_compat.onnx_shim.shim import SHIM
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program

pytest.importorskip("onnxruntime")

WEIGHTS = np.sin(np.arange(512 * 600, dtype=np.float32)).reshape(512, 600)


def record(weights: Any = WEIGHTS) -> Program:
    ports = [Port("x", dtypes.float32, ("n", 512))]
    return record_program(lambda x: [p.matmul(x, weights)], ports, SHIM.emitter(), ["y"])


def test_a_large_initializer_is_no_part_of_the_message() -> None:
    shared: Any = {}
    proto = write_program(record(), offer=SHIM.emitter().offer, shared=shared)  # type: ignore[attr-defined]  # an OnnxEmitter
    (array,) = shared.values()
    assert np.shares_memory(array, WEIGHTS) and list(proto.graph.initializer[0].dims) == [512, 600]
    assert len(proto.SerializeToString()) < 2000 < WEIGHTS.nbytes
    held = write_program(record(), offer=SHIM.emitter().offer)  # type: ignore[attr-defined]  # an OnnxEmitter
    assert len(held.SerializeToString()) > WEIGHTS.nbytes


def test_a_session_reads_the_weights_of_the_program() -> None:
    program = record()
    compiled = SHIM.compile(program)
    program.region.release()
    x = np.ones((2, 512), np.float32)
    np.testing.assert_allclose(compiled.run([x])[0], x @ WEIGHTS, rtol=1e-4, atol=1e-4)
    content = compiled.native._model_bytes
    assert (len(content) < 4000) is can_share()


def test_the_optimiser_folds_shared_weights() -> None:
    """A convolution and the BatchNormalization after it are one node in onnxruntime: it reads the shared filters."""
    filters = np.sin(np.arange(256 * 256 * 9, dtype=np.float32)).reshape(256, 256, 3, 3)
    scale = np.arange(256, dtype=np.float32).reshape(256, 1, 1)
    window = Window.of([3, 3])

    def body(x: Any) -> Any:
        return [p.mul(p.conv(x, filters.transpose(0, 1, 3, 2), window=window), scale)]

    program = record_program(body, [Port("x", dtypes.float32, (1, 256, 4, 4))], SHIM.emitter())
    x = np.ones((1, 256, 4, 4), np.float32)
    expected = filters.transpose(0, 1, 3, 2).sum((1, 2, 3)).reshape(1, 256, 1, 1) * scale
    np.testing.assert_allclose(SHIM.compile(program).run([x])[0][:, :, :1, :1], expected, rtol=1e-3, atol=1e-1)


def test_weights_that_no_file_can_hold_are_refused_before_a_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emission, "_LARGEST_MESSAGE", 1 << 20)
    path = tmp_path / "model.onnx"
    with pytest.raises(UnsupportedError, match="the weights have 1228800 bytes") as refusal:
        SHIM.export(record(), str(path), "onnx")
    assert "external_data" in (refusal.value.hint or "")
    assert not path.exists()
    SHIM.export(record(WEIGHTS[:, :200].copy()), str(path), "onnx")
    assert path.stat().st_size > 200 * 512 * 4
    if can_share():
        assert SHIM.compile(record()).run([np.zeros((1, 512), np.float32)])[0].shape == (1, 600)

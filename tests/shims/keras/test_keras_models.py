"""Programs as Keras models: layers, symbolic sizes, files that stock Keras loads, and unsupported programs."""

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, List, Sequence

import keras
import numpy as np
import pytest
from onnx_compat_keras import SHIM
from onnx_compat_keras.back_end_choice import only_installed
from onnx_compat_keras.features import back_end
from onnx_compat_keras.functional import functional

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.window import Window
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

Function = Callable[..., Sequence[Any]]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def network(x: Any) -> List[Any]:
    """Return strided, depthwise and transposed convolutions, pools, and batch normalisations written as primitives."""
    h = p.conv(x, numbers(8, 3, 3, 3), numbers(8), window=Window.of((3, 3), (2, 2), pads=[(0, 1)] * 2))
    h = p.clip(h * numbers(8, 1, 1) + numbers(8, 1, 1), 0, 6)
    edges = [(1, 1)] * 2
    h = p.conv(h, numbers(16, 1, 3, 3), window=Window.of((3, 3), pads=edges), groups=8) + 0.5
    h = p.conv(h, numbers(16, 4, 1, 1), window=Window.of((1, 1)), groups=4)
    h = p.conv_transpose(h, numbers(16, 4, 2, 2), numbers(4), window=Window.of((2, 2), (2, 2)))
    h = p.max_pool(h, Window.of((3, 3), (2, 2), pads=edges))
    return [p.softmax(p.matmul(p.reduce_mean(h, (2, 3)), numbers(4, 5), numbers(5)), -1), h]


def attention(ids: Any) -> List[Any]:
    """Return attention with only symbolic sizes: split heads, causal mask, positions, flattened rows."""
    batch, length = ids.shape
    x = p.take(numbers(50, 16), ids, 0) + p.take(numbers(40, 16), p.iota(length), 0)
    heads = p.transpose(p.reshape(x, (batch, length, 4, 4)), (0, 2, 1, 3))
    scores = p.matmul(heads, p.transpose(heads, (0, 1, 3, 2))) * 0.5
    positions = p.iota(length)
    later = p.less(p.unsqueeze(positions, [1]), p.unsqueeze(positions, [0]))
    weights = p.softmax(p.where(later, lift(-1e9, dtypes.float32), scores), -1)
    joined = p.reshape(p.transpose(p.matmul(weights, heads), (0, 2, 1, 3)), (batch * length, 16))
    return [p.reshape(p.matmul(joined, numbers(16, 16)), (batch, length, 16)), p.cast(ids, dtypes.float32)]


IMAGES = [Port("image/x:0", dtypes.float32, ("n", 3, "h", "w"))]
TOKENS = [Port("ids", dtypes.int64, ("n", "s"))]
MODELS = {"network": (network, IMAGES), "attention": (attention, TOKENS)}


def inputs_of(ports: Sequence[Port], sizes: Sequence[int]) -> List[np.ndarray]:
    generator = np.random.RandomState(1)
    if ports is TOKENS:
        return [generator.randint(0, 50, tuple(sizes[:2])).astype(np.int64)]
    return [generator.standard_normal((sizes[0], 3, *sizes[1:])).astype(np.float32)]


def program(name: str, shim: Any = SHIM) -> Program:
    function, ports = MODELS[name]
    return record_program(function, ports, shim.emitter(), ["first", "second/out"], name)


def close(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for array, wanted_array in zip(got, wanted):
        assert array.dtype == wanted_array.dtype
        np.testing.assert_allclose(array, wanted_array, 1e-4, 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_two_sizes_run_on_one_plan(name: str, call_model: Any) -> None:
    compiled = SHIM.compile(program(name))
    reference = REFERENCE.compile(program(name, REFERENCE))
    for sizes in ((2, 16, 20), (3, 8, 12), (2, 16, 20)):
        arrays = inputs_of(MODELS[name][1], sizes)
        wanted = reference.run(arrays)
        close(compiled.run(arrays), wanted)
        close(call_model(compiled.native, arrays), wanted)
    assert compiled.traces == (2 if back_end() == "jax" else 1)
    assert isinstance(compiled.native, keras.Model)


def test_operators_are_layers_and_images_are_not_transposed() -> None:
    model: Any = SHIM.compile(program("network")).native
    kinds = Counter(type(operation).__name__ for operation in model.operations)
    for kind in ("Conv2D", "DepthwiseConv2D", "Conv2DTranspose", "MaxPooling2D", "Dense", "ReLU", "Softmax"):
        assert kinds[kind], kinds
    assert kinds["GlobalAveragePooling2D"] == 1
    assert kinds["Permute"] + kinds["Transpose"] == 2  # the input, and the output that is an image
    assert not kinds["Lambda"]


def test_keras_loads_the_files_without_this_library(tmp_path: Path) -> None:
    """Load all files in one child process: to import Keras takes most of the time."""
    paths: List[str] = []
    for name in MODELS:
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "model.keras"
        SHIM.export(program(name), str(path), "keras")
        assert sorted(entry.name for entry in folder.iterdir()) == ["model.keras"]
        arrays = inputs_of(MODELS[name][1], (2, 16, 20))
        wanted = REFERENCE.compile(program(name, REFERENCE)).run(arrays)
        loaded, inputs, outputs = SHIM.load_converted(str(path), "keras")
        close(loaded.run(arrays), wanted)
        assert [port.name for port in inputs] == [MODELS[name][1][0].name]
        assert [port.name for port in outputs] == ["first", "second/out"]
        np.savez(str(folder / "data.npz"), *arrays, *wanted)
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", _CLEAN, *paths],
        env=dict(os.environ, JAX_ENABLE_X64="1", TF_CPP_MIN_LOG_LEVEL="3"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


_CLEAN = """
import os, sys
import numpy as np
import keras
for path in sys.argv[1:]:
    model = keras.saving.load_model(path, safe_mode=True)
    arrays = list(np.load(os.path.join(os.path.dirname(path), "data.npz")).values())
    outputs = model(arrays[0], training=False)
    for got, wanted in zip(outputs, arrays[1:]):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(got), wanted, 1e-4, 1e-4, err_msg=path)
assert not any(name.split(".")[0].startswith("onnx") for name in sys.modules)
"""


def test_large_constants_are_weights(tmp_path: Path) -> None:
    recorded_program = record_program(
        lambda x: [p.add(x, numbers(300, 200))], [Port("x", dtypes.float32, (300, 200))], SHIM.emitter()
    )
    SHIM.export(recorded_program, str(tmp_path / "m.keras"), "keras")
    with zipfile.ZipFile(str(tmp_path / "m.keras")) as file:
        config = file.read("config.json")
        assert len(config) < 20000
        assert not json.loads(config)["class_name"].startswith("onnx")
        assert file.getinfo("model.weights.h5").file_size > 4 * 300 * 200


def test_a_model_that_no_file_can_hold_is_refused_with_the_reason(tmp_path: Path) -> None:
    ports = [Port("x", dtypes.float32, (1, 1, 8, 8))]
    recorded_program = record_program(
        lambda x: [p.cast(p.cast(x, dtypes.complex64), dtypes.float32)], ports, SHIM.emitter()
    )
    with pytest.raises(UnsupportedError, match="complex64"):
        SHIM.export(recorded_program, str(tmp_path / "m.keras"), "keras")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"no model", b"PK\x03\x04 broken"])
def test_a_file_that_is_no_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    path.write_bytes(content)
    with pytest.raises(InvalidModelError):
        SHIM.load_converted(str(path), "keras")


def test_a_model_that_is_not_functional_is_a_keras_model(call_model: Any) -> None:
    def search(x: Any) -> List[Any]:
        return list(p.while_loop(lambda v: p.less(p.reduce_sum(v), 100.0), lambda v: [v * 2.0], [x]))

    recorded_program = record_program(search, [Port("x", dtypes.float32, (3,))], SHIM.emitter())
    compiled = SHIM.compile(recorded_program)
    x = np.array([1, 2, 3], np.float32)
    close(compiled.run([x]), [x * 32])
    assert isinstance(compiled.native, keras.Model)
    close(call_model(compiled.native, [x]), [x * 32])


def test_jax_keeps_64_bits_and_the_setting_of_the_user() -> None:
    recorded_program = record_program(
        lambda a, b: [p.add(a, 1), p.matmul(b, b), p.argmax(b, 1)],
        [Port("a", dtypes.int64, (2,)), Port("b", dtypes.float64, (2, 2))],
        SHIM.emitter(),
    )
    a, b = np.array([2**40, -(2**62)], np.int64), np.array([[1 + 1e-12, 0], [0, 1]], np.float64)
    total, product, index = SHIM.compile(recorded_program).run([a, b])
    np.testing.assert_array_equal(total, a + 1)
    np.testing.assert_allclose(product, b @ b, 1e-14)
    assert index.dtype == np.int64
    if back_end() == "jax":
        import jax

        assert not jax.config.jax_enable_x64
        assert jax.numpy.arange(3).dtype == np.int32


def test_random_numbers_are_new_at_every_run_unless_seeded() -> None:
    recorded_program = record_program(
        lambda x: [p.random_normal((4,), dtypes.float32), p.random_normal((4,), dtypes.float32, 3.0), x],
        [Port("x", dtypes.float32, (1,))],
        SHIM.emitter(),
    )
    compiled = SHIM.compile(recorded_program)
    x = np.zeros(1, np.float32)
    first, second = compiled.run([x]), compiled.run([x])
    assert not np.array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_the_only_installed_back_end_is_taken(tmp_path: Path) -> None:
    """This environment has a single back end: Keras alone would take TensorFlow."""
    variables = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    code = "from onnx_compat_keras import SHIM; print(SHIM.probe()[:2])"
    for content in (None, '{"backend": "tensorflow"}', "no json"):
        if content is not None:
            (tmp_path / "keras.json").write_text(content, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", code], env=dict(variables, KERAS_HOME=str(tmp_path)), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.stdout.startswith("(True, 'Keras on %s" % back_end()), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("configured", "installed", "chosen"),
    [
        ("tensorflow", ["tensorflow", "jax"], None),
        ("tensorflow", ["jax"], "jax"),
        ("tensorflow", ["torch"], "torch"),
        ("tensorflow", ["jax", "torch"], None),
        ("jax", ["jax", "torch"], None),
        ("jax", ["torch"], "torch"),
        ("tensorflow", [], None),
    ],
)
def test_a_back_end_is_chosen_only_if_no_other_is_installed(configured: str, installed: Any, chosen: Any) -> None:
    assert only_installed(configured, installed.__contains__) == chosen


def test_an_unknown_back_end_is_a_reason_of_the_probe() -> None:
    code = "from onnx_compat_keras import SHIM; import sys; assert 'keras' not in sys.modules; print(SHIM.probe()[:2])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ, KERAS_BACKEND="abacus"), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(False")
    assert "abacus" in done.stdout


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 4, 1), (4,)),
        ((2, 4, 1), (1, 1, 4)),
        ((1, 1, 4), (1, 4, 1)),
        ((2, 4, 1, 1), (4,)),
        ((2, 4, 5, 4), (4, 1, 1)),
        ((2, 4, 4, 5), (4, 1)),
        ((2, 3, 4), (4,)),
        ((2, 4, 3), (4, 1)),
    ],
)
def test_a_sum_follows_the_rule_of_broadcasting(left: Any, right: Any, call_model: Any) -> None:
    """Keras 3.15 on TensorFlow treats an operand with one axis longer than 1 as a bias, and may add it along a wrong
    axis.
    """
    ports = [Port("x", dtypes.float32, left), Port("y", dtypes.float32, right)]
    model = functional(record_program(lambda x, y: [p.add(x, y)], ports, SHIM.emitter()))
    x, y = (np.random.RandomState(k).rand(*shape).astype(np.float32) for k, shape in enumerate((left, right)))
    (result,) = call_model(model, [x, y])
    np.testing.assert_allclose(result, x + y, rtol=1e-6)

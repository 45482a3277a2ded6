"""Find the installed TFLite runtime, and detect its features by loading and running small models."""

import importlib
import sys
from functools import partial
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import Interpreter
from onnx_compat_tflite.kernels import Kernels

__all__ = ["NEEDS", "Runtime", "features", "find_runtime", "kernels", "multiplies_int4", "reads_outside"]

#: Modules with an Interpreter, and their packages. TensorFlow's interpreter is used only if the user has imported TensorFlow.
_MODULES = (("ai_edge_litert.interpreter", "ai_edge_litert"), ("tflite_runtime.interpreter", "tflite_runtime"))
NEEDS = "pip install 'onnx-compat[tflite]'"

#: Feature -> the operator whose presence shows it, and the lowest version of that operator.
_REQUIRED_OPERATORS: Dict[str, Tuple[str, int]] = {
    "grouped convolutions": ("CONV_2D", 6),
    "float16 arithmetic": ("ADD", 6),
    "broadcasting over rank 4": ("GELU", 1),
    "dynamic update slice": ("DYNAMIC_UPDATE_SLICE", 1),
    "random uniform": ("RANDOM_UNIFORM", 1),
    "bitwise xor": ("BITWISE_XOR", 1),
}


class Runtime(NamedTuple):
    """An installed TFLite runtime.

    - `module`: a module, or a replacement for it, that has the class `Interpreter`
    - `name`: the package, for example "ai_edge_litert" or "tensorflow"
    - `version`: the version of the package; "" if it is unknown
    """

    module: Any
    name: str
    version: str

    def interpreter(self, plain: bool = False, **source: object) -> Interpreter:
        """Open an interpreter of a model: `interpreter(model_path=path)` or `interpreter(model_content=data)`.

        `plain`: open it without the default delegate (XNNPACK). If the module lacks the class `OpResolverType`, `plain`
        has no effect. All other keywords are passed to the class Interpreter. Raises the RuntimeError or ValueError of
        the runtime if it refuses the model.
        """
        if plain:
            resolvers = getattr(self.module, "OpResolverType", None)
            if resolvers is not None:
                source["experimental_op_resolver_type"] = resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        return self.module.Interpreter(**source)


#: Results of the functions below, which are computed once. Tests replace entries.
_CACHE: Dict[str, Any] = {}


def find_runtime() -> Tuple[Optional[Runtime], str]:
    """Return (runtime, reason for this choice), or (None, reason) if no runtime can be imported.

    The order is ai-edge-litert, tflite-runtime, and the interpreter of TensorFlow. TensorFlow is used only if the user
    has already imported it. A found runtime is cached. If none is found, a later call looks only for TensorFlow.
    """
    if "runtime" not in _CACHE:
        _CACHE["runtime"], _CACHE["reason"] = _import_runtime()
    if _CACHE["runtime"] is None and "tensorflow" in sys.modules:
        _CACHE["runtime"], _CACHE["reason"] = _tensorflow_runtime()
    return _CACHE["runtime"], _CACHE["reason"]


def _import_runtime() -> Tuple[Optional[Runtime], str]:
    """Return (runtime, reason) for the first package of `_MODULES` that imports; (None, reason) if none imports."""
    broken = ""
    for module, package in _MODULES:
        try:
            return Runtime(
                importlib.import_module(module), package, _installed_version(package)
            ), "%s is installed" % package
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] != package:
                broken = "%s is installed and needs %s" % (package, error.name)
        except Exception as error:  # noqa: BLE001  (an extension module that does not load raises any exception)
            broken = "%s does not import: %s" % (package, str(error).split("\n", maxsplit=1)[0])
    return None, broken or "no TFLite runtime is installed: %s" % NEEDS


def _tensorflow_runtime() -> Tuple[Optional[Runtime], str]:
    """Return (runtime, reason) for the TensorFlow that the user has imported.

    Returns (None, reason) if this TensorFlow has no interpreter.
    """
    tensorflow = sys.modules["tensorflow"]
    lite = getattr(tensorflow, "lite", None)
    if lite is None or not hasattr(lite, "Interpreter"):
        return None, "TensorFlow is imported here but has no TFLite interpreter: %s" % NEEDS
    module = lite.experimental if hasattr(lite.experimental, "OpResolverType") else lite
    version = str(getattr(tensorflow, "__version__", ""))
    return Runtime(
        _InterpreterModule(lite.Interpreter, getattr(module, "OpResolverType", None)), "tensorflow", version
    ), ("the interpreter of the TensorFlow that is imported")


class _InterpreterModule(NamedTuple):
    """A replacement for a runtime's module, with TensorFlow's classes `Interpreter` and `OpResolverType`.

    TensorFlow keeps these classes in two modules. `OpResolverType` is None if TensorFlow lacks it.
    """

    Interpreter: Any
    OpResolverType: Any


def _installed_version(package: str) -> str:
    """Return the version of a package, also of its variant "-nightly"; "" if it is unknown."""
    try:
        metadata = importlib.import_module("importlib.metadata")
    except ImportError:
        try:
            metadata = importlib.import_module("importlib_metadata")
        except ImportError:
            return ""
    version: Callable[[str], str] = metadata.version
    for name in (package, package.replace("_", "-"), package.replace("_", "-") + "-nightly"):
        try:
            return version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def kernels() -> Kernels:
    """Return the `Kernels` of the runtime that `find_runtime` returns.

    Without a runtime, returns the kernels that every supported runtime has. The first result is cached: a runtime that
    is imported later has no effect.
    """
    if "kernels" not in _CACHE:
        runtime = find_runtime()[0]
        _CACHE["kernels"] = (
            Kernels() if runtime is None else Kernels(runtime.interpreter, partial(runtime.interpreter, True))
        )
    result: Kernels = _CACHE["kernels"]
    return result


def features() -> Dict[str, bool]:
    """Return a dict {feature: whether the runtime has it}, with features such as "float16 arithmetic".

    If no runtime is installed, a value tells whether every supported runtime has the feature. Some features are
    detected by loading a tiny model, once for each.
    """
    return {name: kernels().has(*requirement) for name, requirement in _REQUIRED_OPERATORS.items()}


def reads_outside() -> bool:
    """Whether the runtime reads constants that are stored after the flatbuffer, as in files over 2 GB.

    Returns False without a runtime. The first call runs a small model, and its result is cached.
    """
    if "outside" not in _CACHE:
        runtime = find_runtime()[0]
        _CACHE["outside"] = runtime is not None and _reads_outside(runtime)
    return bool(_CACHE["outside"])


def _reads_outside(runtime: Runtime) -> bool:
    graph = fb.SubGraph()
    x, y = graph.add(fb.TensorSpec("x", "float32", (2,))), graph.add(fb.TensorSpec("y", "float32", (2,)))
    two = graph.add(fb.TensorSpec("two", "float32", (2,), np.full(2, 2, np.float32)))
    graph.inputs, graph.outputs = [x], [y]
    graph.operators.append(fb.OperatorSpec("MUL", [x, two], [y]))
    try:
        interpreter = runtime.interpreter(True, model_content=fb.to_bytes(fb.ModelSpec([graph]), outside=True))
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.full(2, 3, np.float32))
        interpreter.invoke()
        return bool((interpreter.get_tensor(interpreter.get_output_details()[0]["index"]) == 6).all())
    except (RuntimeError, ValueError):
        return False


def multiplies_int4(blocks: bool, plain: bool) -> bool:
    """Whether FULLY_CONNECTED of float32 inputs and int4 weights returns the right product on the runtime.

    `blocks`: the weights have a scale for each block of a row; otherwise for each row. `plain`: the model runs without
    the default delegate (XNNPACK). Returns False without a runtime, or without version 13 of FULLY_CONNECTED. For each
    pair of arguments, the first call runs a model, and its result is cached.
    """
    key = "int4, %s, %s" % (blocks, plain)
    if key not in _CACHE:
        runtime = find_runtime()[0]
        is_loadable = runtime is not None and kernels().has("FULLY_CONNECTED", 13)
        _CACHE[key] = runtime is not None and is_loadable and _multiplies_int4(runtime, blocks, plain)
    return bool(_CACHE[key])


def _multiplies_int4(runtime: Runtime, blocks: bool, plain: bool) -> bool:
    rows, fan_in, filters = 15, 64, 24
    x = np.sin(np.arange(rows * fan_in, dtype=np.float32)).reshape(rows, fan_in)
    integers = (np.arange(filters * fan_in) * 5 % 15 - 7).reshape(filters, 2, -1)
    scales = 2.0 ** (np.arange(filters * 2) % 5).reshape(filters, 2, 1)
    graph = fb.SubGraph(inputs=[0], outputs=[3])
    graph.add(fb.TensorSpec("x", "float32", x.shape))
    graph.add(fb.TensorSpec("scales", "float16", (filters, 2), scales[..., 0].astype(np.float16)))
    details = {"scales": 1, "zero_points": -1, "block_size": fan_in // 2}
    quantization = fb.Quantization(details=("BlockwiseQuantization", details))
    if not blocks:
        scales[:, 1] = scales[:, 0]
        quantization = fb.Quantization(scales[:, 0, 0].tolist(), [0] * filters, 0)
    nibbles = integers.reshape(-1).astype(np.int8).view(np.uint8) & 15
    packed = nibbles[::2] | nibbles[1::2] << 4
    graph.add(fb.TensorSpec("w", "int4", (filters, fan_in), packed, quantization=quantization))
    graph.add(fb.TensorSpec("y", "float32", (rows, filters)))
    graph.operators.append(fb.OperatorSpec("FULLY_CONNECTED", [0, 2, None], [3]))
    try:
        interpreter = runtime.interpreter(plain, model_content=fb.to_bytes(fb.ModelSpec([graph])))
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        actual = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    except (RuntimeError, ValueError):
        return False
    expected = x @ (integers * scales).reshape(filters, fan_in).T
    return bool(np.abs(actual - expected).max() < 0.1 * np.abs(expected).max())

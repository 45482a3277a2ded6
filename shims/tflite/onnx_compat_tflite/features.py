"""Which TFLite runtime is here, and what it can do."""

import importlib
import sys
from functools import partial
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels

__all__ = ["NEEDS", "Runtime", "features", "find", "kernels", "multiplies_int4", "reads_outside"]

#: Where an Interpreter is looked for. TensorFlow's own only serves a user who has imported TensorFlow already.
_MODULES = (("ai_edge_litert.interpreter", "ai_edge_litert"), ("tflite_runtime.interpreter", "tflite_runtime"))
NEEDS = "pip install 'onnx-compat[tflite]'"

#: Feature -> the operator whose presence tells it, and the version from which on.
_TOLD_BY: Dict[str, Tuple[str, int]] = {
    "grouped convolutions": ("CONV_2D", 6),
    "float16 arithmetic": ("ADD", 6),
    "broadcasting over rank 4": ("GELU", 1),
    "dynamic update slice": ("DYNAMIC_UPDATE_SLICE", 1),
    "random uniform": ("RANDOM_UNIFORM", 1),
    "bitwise xor": ("BITWISE_XOR", 1),
}


class Runtime(NamedTuple):
    """A module with an Interpreter in it."""

    module: Any
    name: str
    version: str

    def interpreter(self, plain: bool = False, **where: Any) -> Any:
        """An Interpreter; `plain` without the default delegate (XNNPACK)."""
        if plain:
            resolvers = getattr(self.module, "OpResolverType", None)
            if resolvers is not None:
                where["experimental_op_resolver_type"] = resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        return self.module.Interpreter(**where)


_FOUND: Dict[str, Any] = {}


def find() -> Tuple[Optional[Runtime], str]:
    """The runtime that serves here; or None, and why."""
    if "runtime" not in _FOUND:
        _FOUND["runtime"], _FOUND["reason"] = _look()
    if _FOUND["runtime"] is None and "tensorflow" in sys.modules:
        _FOUND["runtime"], _FOUND["reason"] = _tensorflows()
    return _FOUND["runtime"], _FOUND["reason"]


def _look() -> Tuple[Optional[Runtime], str]:
    broken = ""
    for module, package in _MODULES:
        try:
            return Runtime(importlib.import_module(module), package, _version(package)), "%s is installed" % package
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] != package:
                broken = "%s is installed and needs %s" % (package, error.name)
        except Exception as error:  # noqa: BLE001  (whatever an extension module raises when it does not load)
            broken = "%s does not import: %s" % (package, str(error).split("\n", maxsplit=1)[0])
    return None, broken or "no TFLite runtime is installed: %s" % NEEDS


def _tensorflows() -> Tuple[Optional[Runtime], str]:
    """The interpreter inside the TensorFlow that the user has imported."""
    tensorflow = sys.modules["tensorflow"]
    lite = getattr(tensorflow, "lite", None)
    if lite is None or not hasattr(lite, "Interpreter"):
        return None, "TensorFlow is imported here but has no TFLite interpreter: %s" % NEEDS
    module = lite.experimental if hasattr(lite.experimental, "OpResolverType") else lite
    version = str(getattr(tensorflow, "__version__", ""))
    return Runtime(_Joined(lite.Interpreter, getattr(module, "OpResolverType", None)), "tensorflow", version), (
        "the interpreter of the TensorFlow that is imported"
    )


class _Joined(NamedTuple):
    """What a runtime's module has, from where TensorFlow keeps it."""

    Interpreter: Any
    OpResolverType: Any


def _version(package: str) -> str:
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
    """What the kernels of the runtime here do; those of every runtime where none is here."""
    if "kernels" not in _FOUND:
        runtime = find()[0]
        _FOUND["kernels"] = (
            Kernels() if runtime is None else Kernels(runtime.interpreter, partial(runtime.interpreter, True))
        )
    found: Kernels = _FOUND["kernels"]
    return found


def features() -> Dict[str, bool]:
    """Feature -> whether the runtime has it, by loading tiny models."""
    return {name: kernels().has(*told) for name, told in _TOLD_BY.items()}


def reads_outside() -> bool:
    """Whether the runtime finds constants behind the flatbuffer, where they are in files over 2 GB: by running one."""
    if "outside" not in _FOUND:
        runtime = find()[0]
        _FOUND["outside"] = runtime is not None and _reads_outside(runtime)
    return bool(_FOUND["outside"])


def _reads_outside(runtime: Runtime) -> bool:
    graph = fb.SubGraph()
    x, y = graph.add(fb.TensorSpec("x", "float32", (2,))), graph.add(fb.TensorSpec("y", "float32", (2,)))
    two = graph.add(fb.TensorSpec("two", "float32", (2,), np.full(2, 2, np.float32)))
    graph.inputs, graph.outputs = [x], [y]
    graph.operators.append(fb.OperatorSpec("MUL", [x, two], [y]))
    try:
        made = runtime.interpreter(True, model_content=fb.to_bytes(fb.ModelSpec([graph]), outside=True))
        made.allocate_tensors()
        made.set_tensor(made.get_input_details()[0]["index"], np.full(2, 3, np.float32))
        made.invoke()
        return bool((made.get_tensor(made.get_output_details()[0]["index"]) == 6).all())
    except (RuntimeError, ValueError):
        return False


def multiplies_int4(blocks: bool, plain: bool) -> bool:
    """Whether weights of int4 are multiplied rightly, with a scale for each row or for each block of one, under the delegate
    or (`plain`) without it: by running a product.
    """
    key = "int4, %s, %s" % (blocks, plain)
    if key not in _FOUND:
        runtime = find()[0]
        known = runtime is not None and kernels().has("FULLY_CONNECTED", 13)
        _FOUND[key] = known and _multiplies_int4(runtime, blocks, plain)
    return bool(_FOUND[key])


def _multiplies_int4(runtime: Any, blocks: bool, plain: bool) -> bool:
    rows, fan_in, filters = 15, 64, 24
    x = np.sin(np.arange(rows * fan_in, dtype=np.float32)).reshape(rows, fan_in)
    integers = (np.arange(filters * fan_in) * 5 % 15 - 7).reshape(filters, 2, -1)
    scales = 2.0 ** (np.arange(filters * 2) % 5).reshape(filters, 2, 1)
    graph = fb.SubGraph(inputs=[0], outputs=[3])
    graph.add(fb.TensorSpec("x", "float32", x.shape))
    graph.add(fb.TensorSpec("scales", "float16", (filters, 2), scales[..., 0].astype(np.float16)))
    details: Any = {"scales": 1, "zero_points": -1, "block_size": fan_in // 2}
    held = fb.Quantization(details=("BlockwiseQuantization", details))
    if not blocks:
        scales[:, 1] = scales[:, 0]
        held = fb.Quantization(scales[:, 0, 0].tolist(), [0] * filters, 0)
    nibbles = integers.reshape(-1).astype(np.int8).view(np.uint8) & 15
    packed = nibbles[::2] | nibbles[1::2] << 4
    graph.add(fb.TensorSpec("w", "int4", (filters, fan_in), packed, quantization=held))
    graph.add(fb.TensorSpec("y", "float32", (rows, filters)))
    graph.operators.append(fb.OperatorSpec("FULLY_CONNECTED", [0, 2, None], [3]))
    try:
        made = runtime.interpreter(plain, model_content=fb.to_bytes(fb.ModelSpec([graph])))
        made.allocate_tensors()
        made.set_tensor(made.get_input_details()[0]["index"], x)
        made.invoke()
        found = made.get_tensor(made.get_output_details()[0]["index"])
    except (RuntimeError, ValueError):
        return False
    wanted = x @ (integers * scales).reshape(filters, fan_in).T
    return bool(np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max())

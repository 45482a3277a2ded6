"""Whether the TFLite runtime computes weights that are stored in blocks: DEQUANTIZE of a constant, then RESHAPE.

RESHAPE of TFLite 2.12 without the delegate reads the weights before DEQUANTIZE has computed them, and ends the process.
"""

from functools import lru_cache

import numpy as np

from onnx_compat.shim import UnsupportedError, call_in_child
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import find_runtime, kernels

__all__ = ["check_blocks", "computes_blocks", "run_in_child"]

_SECONDS = 120


def check_blocks() -> None:
    """Raise UnsupportedError if the runtime does not compute weights in blocks.

    Runtimes that run files with the delegate compute them, and are not tried.
    """
    if not kernels().quirks.delegated and not computes_blocks():
        raise UnsupportedError(
            "the TFLite runtime here does not compute weights that are stored in blocks",
            hint="leave out the size of the blocks, or use another version of the runtime",
        )


@lru_cache(maxsize=1)
def computes_blocks() -> bool:
    """Whether the runtime returns the right product of a small model with weights in blocks.

    The model runs in a child process, because a wrong kernel may end the process. It runs with the delegate if the shim
    runs its files with the delegate. The result is cached.
    """
    result = call_in_child(__name__, "run_in_child", seconds=_SECONDS)
    return result.status == "returned" and result.value is True


def run_in_child() -> bool:
    """Return whether the product of a small model is right; `computes_blocks` starts this."""
    runtime, _ = find_runtime()
    assert runtime is not None, "files are quantised with a runtime"
    packed = np.arange(64, dtype=np.int8).reshape(4, 16)
    scales = [1.0, 2.0, 4.0, 8.0]
    graph = fb.SubGraph(inputs=[0], outputs=[1])
    graph.add(fb.TensorSpec("x", "float32", (1, 32)))
    graph.add(fb.TensorSpec("y", "float32", (1, 2)))
    stored = graph.add(fb.TensorSpec("packed", "int8", (4, 16), packed, quantization=fb.Quantization(scales, [0] * 4)))
    rows = graph.add(fb.TensorSpec("rows", "float32", (4, 16)))
    shape = graph.add(fb.TensorSpec("shape", "int32", (2,), np.array([2, 32], np.int32)))
    weights = graph.add(fb.TensorSpec("weights", "float32", (2, 32)))
    graph.operators.append(fb.OperatorSpec("DEQUANTIZE", [stored], [rows]))
    graph.operators.append(fb.OperatorSpec("RESHAPE", [rows, shape], [weights]))
    graph.operators.append(fb.OperatorSpec("FULLY_CONNECTED", [0, weights, None], [1]))
    plain = not kernels().quirks.delegated
    interpreter = runtime.interpreter(plain, model_content=fb.to_bytes(fb.ModelSpec([graph])))
    interpreter.allocate_tensors()
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.set_tensor(source["index"], np.ones((1, 32), np.float32))
    interpreter.invoke()
    expected = (packed * np.array(scales)[:, None]).reshape(2, 32).sum(axis=1)
    return bool(np.array_equal(interpreter.get_tensor(result["index"])[0], expected))

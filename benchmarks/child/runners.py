"""Runners: models that are open in this process. Each is a function without arguments that runs the model once."""

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

Run = Callable[[], Any]

_OPEN: Dict[str, Run] = {}


def versions(names: List[str]) -> Dict[str, str]:
    """Return name -> version of these distributions. Those that are not installed in this environment are absent."""
    from importlib import metadata

    installed = {}
    for name in names:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def open_runner(
    name: str, kind: str, threads: int, path: str = "", network: str = "", shape: Any = None, feeds: str = ""
) -> None:
    """Open a runner under a name, and run it once, because the first run may still compile.

    `kind`: a key of `_KINDS`. The other arguments are passed to its runner, which reads those that it needs.
    """
    _OPEN[name] = _KINDS[kind](threads=threads, path=path, network=network, shape=shape, feeds=feeds)
    _OPEN[name]()


def run(name: str, times: int) -> List[float]:
    """Run a runner `times` times, and return the duration of each run in seconds."""
    work = _OPEN[name]
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def _image(shape: Any) -> Any:
    """Return random float32 numbers of this shape, the same in each call."""
    import numpy as np

    return np.random.RandomState(0).standard_normal([int(size) for size in shape]).astype(np.float32)


def values(shape: Any, dtype: Any) -> Any:
    """Return random values for an input, the same in each call. Integers are 0 or 1, so that they are valid indices."""
    import numpy as np

    if np.dtype(dtype).kind == "f":
        return _image(shape).astype(dtype)
    return np.random.RandomState(0).randint(0, 2, [int(size) for size in shape]).astype(dtype)


def _arrays(feeds: str) -> Optional[Dict[str, Any]]:
    """Return input -> array from the .npz file `feeds`. None: `feeds` is ""."""
    import numpy as np

    return dict(np.load(feeds)) if feeds else None


def open_interpreter(path: str, threads: int, feeds: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[int, Any]]:
    """Open a .tflite file. Return (interpreter, index of each input tensor -> its array).

    `feeds` are matched by name if the file has the name, else by position. Without `feeds`, inputs get random values in
    the layout of the file, which may differ from the layout of the model.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        from tflite_runtime.interpreter import Interpreter
    interpreter = Interpreter(model_path=path, num_threads=threads)
    details = interpreter.get_input_details()
    if feeds is None:
        given = {detail["index"]: values(detail["shape"], detail["dtype"]) for detail in details}
    else:
        arrays = list(feeds.values())
        given = {
            detail["index"]: feeds[detail["name"]] if detail["name"] in feeds else arrays[k]
            for k, detail in enumerate(details)
        }
        for index, array in given.items():
            interpreter.resize_tensor_input(index, array.shape)
    interpreter.allocate_tensors()
    return interpreter, given


def _tflite(threads: int, path: str, feeds: str = "", **_: Any) -> Run:
    """Return a runner of a .tflite file."""
    interpreter, given = open_interpreter(path, threads, _arrays(feeds))
    outputs = interpreter.get_output_details()

    def work() -> Any:
        for index, array in given.items():
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in outputs]

    return work


def _onnxruntime(threads: int, path: str, shape: Any = None, feeds: str = "", **_: Any) -> Run:
    """Return a runner of an ONNX model in onnxruntime. `shape` is the shape of each input if it is given and `feeds` is
    not.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}
    given = _arrays(feeds) or {
        port.name: values(shape or port.shape, types[port.type]) for port in session.get_inputs()
    }
    return lambda: session.run(None, given)


def _onnx_compat(threads: int, path: str, shape: Any, **_: Any) -> Run:
    """Return a runner of an ONNX model on the tf2 shim. `shape`: that of its first input."""
    _tensorflow(threads)
    import onnx_compat

    model = onnx_compat.load(path)
    runnable = onnx_compat.prepare(model, shim="tf2")
    feeds = {model.inputs[0].name: _image(shape)}
    return lambda: runnable.run(feeds)


def _reference(path: str, shape: Any, **_: Any) -> Run:
    """Return a runner of an ONNX model on the numpy reference of this project. `shape`: that of its first input."""
    import onnx_compat

    model = onnx_compat.load(path)
    runnable = onnx_compat.prepare(model, shim="reference")
    feeds = {model.inputs[0].name: _image(shape)}
    return lambda: runnable.run(feeds)


def _evaluator(path: str, shape: Any, **_: Any) -> Run:
    """Return a runner of an ONNX model in onnx's ReferenceEvaluator. `shape`: that of its first input."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    evaluator = ReferenceEvaluator(model)
    initializers = {tensor.name for tensor in model.graph.initializer}
    feeds = {next(tensor.name for tensor in model.graph.input if tensor.name not in initializers): _image(shape)}
    return lambda: evaluator.run(None, feeds)


def _onnx_tf(threads: int, path: str, shape: Any, **_: Any) -> Run:
    """Return a runner of an ONNX model in onnx-tf. `shape`: that of its input."""
    _tensorflow(threads)
    import onnx
    from onnx_tf.backend import prepare  # type: ignore[import-not-found]  # in the environment of the peer only

    prepared = prepare(onnx.load(path))
    image = _image(shape)
    return lambda: prepared.run(image)


def _keras(threads: int, network: str, shape: Any, **_: Any) -> Run:
    """Return a runner of a network of keras.applications as a tf.function, which is the fastest call of it.

    `shape`: that of the input in NCHW.
    """
    tf = _tensorflow(threads)
    import keras

    options = {"weights": None, "classifier_activation": None}
    model = getattr(keras.applications, network)(**options)
    if network == "ResNet50":
        model = _stride_in_the_middle(model)
    batch, channels, height, width = shape
    image = _image((batch, height, width, channels))
    call = tf.function(lambda x: model(x, training=False))
    return lambda: call(tf.constant(image)).numpy()


def _stride_in_the_middle(model: Any) -> Any:
    """Return a copy of ResNet-50 whose blocks have their stride in the 3x3 convolution, not in the 1x1 convolution.

    PyTorch strides in the 3x3 convolution, Keras in the 1x1 convolution before it, which is less work.
    """

    def move_stride(layer: Any) -> Any:
        config = layer.get_config()
        stage, _, rest = layer.name.partition("_block1_")
        if stage in ("conv3", "conv4", "conv5") and rest in ("1_conv", "2_conv"):
            config["strides"] = (1, 1) if rest == "1_conv" else (2, 2)
        return type(layer).from_config(config)

    import keras

    return keras.models.clone_model(model, clone_function=move_stride)


def _tensorflow(threads: int) -> Any:
    """Import TensorFlow, set its number of threads, and return the module."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    current_threads: Optional[int] = tf.config.threading.get_intra_op_parallelism_threads()
    if current_threads != threads:  # TensorFlow accepts it only before its first operation: for the first runner
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


_KINDS: Dict[str, Callable[..., Run]] = {
    "tflite": _tflite,
    "evaluator": _evaluator,
    "onnxruntime": _onnxruntime,
    "onnx-compat": _onnx_compat,
    "onnx-tf": _onnx_tf,
    "reference": _reference,
    "keras": _keras,
}

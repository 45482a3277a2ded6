"""Models that are ready to run, each behind the same call: a numpy image in (or the arrays of a file), numpy outputs out."""

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

Run = Callable[[], Any]

_OPEN: Dict[str, Run] = {}


def versions(names: List[str]) -> Dict[str, str]:
    """Those of these distributions that are installed here."""
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def open_runner(
    name: str, kind: str, threads: int, path: str = "", network: str = "", shape: Any = None, feeds: str = ""
) -> None:
    """Make something ready under a name; the first run, which may still compile, is done here."""
    _OPEN[name] = _KINDS[kind](threads=threads, path=path, network=network, shape=shape, feeds=feeds)
    _OPEN[name]()


def run(name: str, times: int) -> List[float]:
    """The seconds of each of some runs."""
    work = _OPEN[name]
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def _image(shape: Any) -> Any:
    import numpy as np

    return np.random.RandomState(0).standard_normal([int(size) for size in shape]).astype(np.float32)


def values(shape: Any, dtype: Any) -> Any:
    """Numbers for any input: integers are few, and indices into whatever there is."""
    import numpy as np

    if np.dtype(dtype).kind == "f":
        return _image(shape).astype(dtype)
    return np.random.RandomState(0).randint(0, 2, [int(size) for size in shape]).astype(dtype)


def _arrays(feeds: str) -> Optional[Dict[str, Any]]:
    """The arrays of a .npz file by the names of inputs; None without one."""
    import numpy as np

    return dict(np.load(feeds)) if feeds else None


def opened(path: str, threads: int, feeds: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[int, Any]]:
    """An interpreter of a .tflite file, and what each of its inputs is given: by name, where a name is known, else by place.

    Without `feeds`, some values in the file's own layout: a converter may have turned it.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        from tflite_runtime.interpreter import Interpreter
    interpreter = Interpreter(model_path=path, num_threads=threads)
    details = interpreter.get_input_details()
    if feeds is None:
        given = {each["index"]: values(each["shape"], each["dtype"]) for each in details}
    else:
        arrays = list(feeds.values())
        given = {
            each["index"]: feeds[each["name"]] if each["name"] in feeds else arrays[k] for k, each in enumerate(details)
        }
        for index, array in given.items():
            interpreter.resize_tensor_input(index, array.shape)
    interpreter.allocate_tensors()
    return interpreter, given


def _tflite(threads: int, path: str, feeds: str = "", **_: Any) -> Run:
    interpreter, given = opened(path, threads, _arrays(feeds))
    fetched = interpreter.get_output_details()

    def work() -> Any:
        for index, array in given.items():
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in fetched]

    return work


def _onnxruntime(threads: int, path: str, shape: Any = None, feeds: str = "", **_: Any) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}
    given = _arrays(feeds) or {
        each.name: values(shape or each.shape, types[each.type]) for each in session.get_inputs()
    }
    return lambda: session.run(None, given)


def _onnx_compat(threads: int, path: str, shape: Any, **_: Any) -> Run:
    _tensorflow(threads)
    import onnx_compat

    model = onnx_compat.load(path)
    runnable = onnx_compat.prepare(model, shim="tf2")
    feeds = {model.inputs[0].name: _image(shape)}
    return lambda: runnable.run(feeds)


def _reference(path: str, shape: Any, **_: Any) -> Run:
    import onnx_compat

    model = onnx_compat.load(path)
    runnable = onnx_compat.prepare(model, shim="reference")
    feeds = {model.inputs[0].name: _image(shape)}
    return lambda: runnable.run(feeds)


def _evaluator(path: str, shape: Any, **_: Any) -> Run:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    evaluator = ReferenceEvaluator(model)
    given = {tensor.name for tensor in model.graph.initializer}
    feeds = {next(one.name for one in model.graph.input if one.name not in given): _image(shape)}
    return lambda: evaluator.run(None, feeds)


def _onnx_tf(threads: int, path: str, shape: Any, **_: Any) -> Run:
    _tensorflow(threads)
    import onnx
    from onnx_tf.backend import prepare  # type: ignore[import-not-found]

    prepared = prepare(onnx.load(path))
    image = _image(shape)
    return lambda: prepared.run(image)


def _keras(threads: int, network: str, shape: Any, **_: Any) -> Run:
    """keras.applications' own network as a tf.function: the fastest way to call it."""
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
    """Torch's ResNet-50 halves the image in the 3x3 convolution of a block, keras' in the 1x1 before it, which is less
    work. Moving the stride makes the two the same network.
    """

    def moved(layer: Any) -> Any:
        config = layer.get_config()
        stage, _, rest = layer.name.partition("_block1_")
        if stage in ("conv3", "conv4", "conv5") and rest in ("1_conv", "2_conv"):
            config["strides"] = (1, 1) if rest == "1_conv" else (2, 2)
        return type(layer).from_config(config)

    import keras

    return keras.models.clone_model(model, clone_function=moved)


def _tensorflow(threads: int) -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    wanted: Optional[int] = tf.config.threading.get_intra_op_parallelism_threads()
    if wanted != threads:  # only possible before its first operation, and so for the first runner of a process
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

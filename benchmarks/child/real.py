"""A network of a package through the whole of ours: converted, and held against onnxruntime, as is the package's own file."""

import os
import time
from typing import Any, Dict, List, Optional

from runners import opened  # type: ignore[import-not-found]

TOLERANCE = 1e-3


def check(
    model: str,
    path: str,
    feeds: str,
    shapes: Dict[str, List[int]],
    values: Dict[str, Any],
    fed: Dict[str, List[int]],
    ranges: Dict[str, List[float]],
    theirs: Optional[str] = None,
) -> Dict[str, Any]:
    """Write the file and what it is fed, and say how far its outputs, and those of `theirs`, are from onnxruntime's."""
    import onnx_compat

    onnx_compat.convert(model, path, shapes=shapes, values=values)  # the first also finds out what the kernels can do
    start = time.perf_counter()
    onnx_compat.convert(model, path, shapes=shapes, values=values)
    seconds = time.perf_counter() - start
    given = _made_up(model, shapes, values, fed, ranges)
    report = onnx_compat.verify(model, given, shim="tflite", converted=path, rtol=TOLERANCE, atol=TOLERANCE)
    answer = {
        "seconds": seconds,
        "onnx_bytes": os.path.getsize(model),
        "ours": {"ok": report.ok, "error": _largest(report.outputs), **_about(path)},
        "said": report.summary,
        "oracle": report.oracle,
    }
    if theirs is not None:
        found = _beside(theirs, model, given)
        answer["theirs"] = {"ok": all(one.ok for one in found), "error": _largest(found), **_about(theirs)}
    _save(feeds, given)
    return answer


def _made_up(model: str, shapes: Any, values: Any, fed: Any, ranges: Any) -> Dict[str, Any]:
    """An array for each input of the model, the same in every run."""
    import numpy as np

    import onnx_compat
    from onnx_compat.fixing import fixed
    from onnx_compat.verification.generate import generate

    settled = fixed(onnx_compat.load(model), {**shapes, **fed}, values)
    given = generate(settled.inputs)
    random = np.random.RandomState(0)
    for name, (low, high) in ranges.items():
        whole = given[name].dtype.kind in "iu"
        drawn = (random.randint if whole else random.uniform)(low, high, given[name].shape)
        given[name] = np.asarray(drawn).astype(given[name].dtype)
    given.update((name, settled.graph.initializers[name].array()) for name in values)
    return given


def _beside(path: str, model: str, given: Dict[str, Any]) -> List[Any]:
    """The outputs of another converter's file, compared with onnxruntime's: by name where it kept the names."""
    import onnxruntime

    from onnx_compat.verification.compare import compare

    interpreter, arrays = opened(path, 1, given)
    for index, array in arrays.items():
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    got = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
    named = {each["name"]: array for each, array in zip(interpreter.get_output_details(), got)}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    wanted = session.run(None, given)
    return [
        one
        for k, (name, want) in enumerate(zip(names, wanted))
        for one in compare(name, named.get(name, got[k]), want, TOLERANCE, TOLERANCE)
    ]


def _largest(found: Any) -> Optional[float]:
    """The largest absolute error of all outputs; None where no output has one (integers, say)."""
    errors = [one.max_abs_error for one in found if one.max_abs_error is not None]
    return max(errors) if errors else None


def _about(path: str) -> Dict[str, int]:
    from onnx_compat_tflite import flatbuffer

    graphs = flatbuffer.read(path).subgraphs
    return {"bytes": os.path.getsize(path), "operators": sum(len(graph.operators) for graph in graphs)}


def _save(path: str, given: Dict[str, Any]) -> None:
    import numpy as np

    np.savez(path, **given)

"""Convert a trained network from a package, and compare our file and the package's own .tflite file with onnxruntime."""

import os
import time
from typing import Any, Dict, List, Optional

from real_inputs import generate_inputs  # type: ignore[import-not-found]  # a module beside this file
from runners import open_interpreter  # type: ignore[import-not-found]  # a module beside this file

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
    """Convert a model to `path`, write its inputs to `feeds` (.npz), and return the results as a dict.

    - `seconds`: the duration of a second conversion
    - `onnx_bytes`: the size of the model
    - `ours`, `theirs`: the size, the operators, the error, and whether it is within the tolerance (`ok`)
    - `said`, `oracle`: the summary and the oracle of the verification of our file

    `theirs`: the path of the package's own .tflite file; None: there is no such file. The other arguments are fields of
    `Network` in matrix/real/catalog.py.
    """
    import onnx_compat

    # The first conversion also probes the kernels, so the second is measured.
    onnx_compat.convert(model, path, shapes=shapes, values=values)
    start = time.perf_counter()
    onnx_compat.convert(model, path, shapes=shapes, values=values)
    seconds = time.perf_counter() - start
    inputs = generate_inputs(model, shapes, values, fed, ranges)
    report = onnx_compat.verify(model, inputs, shim="tflite", converted=path, rtol=TOLERANCE, atol=TOLERANCE)
    answer = {
        "seconds": seconds,
        "onnx_bytes": os.path.getsize(model),
        "ours": {"ok": report.ok, "error": _largest(report.outputs), **_about(path)},
        "said": report.summary,
        "oracle": report.oracle,
    }
    if theirs is not None:
        comparisons = _beside(theirs, model, inputs)
        answer["theirs"] = {
            "ok": all(output.ok for output in comparisons),
            "error": _largest(comparisons),
            **_about(theirs),
        }
    _save(feeds, inputs)
    return answer


def _beside(path: str, model: str, given: Dict[str, Any]) -> List[Any]:
    """Compare the outputs of another tool's .tflite file with those of onnxruntime. Return the comparisons.

    `given`: the inputs by name. Outputs are matched by name if the file has the name, else by position.
    """
    import onnxruntime

    from onnx_compat.verification.compare import compare

    interpreter, arrays = open_interpreter(path, 1, given)
    for index, array in arrays.items():
        interpreter.set_tensor(index, array)
    interpreter.invoke()
    results = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    arrays_by_name = {detail["name"]: array for detail, array in zip(interpreter.get_output_details(), results)}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_outputs()]
    expected = session.run(None, given)
    return [
        comparison
        for k, (name, array) in enumerate(zip(names, expected))
        for comparison in compare(name, arrays_by_name.get(name, results[k]), array, TOLERANCE, TOLERANCE)
    ]


def _largest(comparisons: Any) -> Optional[float]:
    """Return the largest absolute error of all outputs. None: no output has one, because all are integers."""
    errors = [comparison.max_abs_error for comparison in comparisons if comparison.max_abs_error is not None]
    return max(errors) if errors else None


def _about(path: str) -> Dict[str, int]:
    """Return {"bytes": size, "operators": number of operators in all subgraphs} of a .tflite file."""
    from onnx_compat_tflite import flatbuffer

    graphs = flatbuffer.read(path).subgraphs
    return {"bytes": os.path.getsize(path), "operators": sum(len(graph.operators) for graph in graphs)}


def _save(path: str, given: Dict[str, Any]) -> None:
    """Write arrays by name to a .npz file."""
    import numpy as np

    np.savez(path, **given)

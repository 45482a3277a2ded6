"""Helpers that record programs of primitives, and compare their .tflite files with the reference."""

import copy
from typing import Any, Callable, List, Optional, Sequence
from unittest import mock

import numpy as np
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import build as building
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes import optimize

from onnx_compat.ir.dtypes import float32
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Emitter, Port, Program
from onnx_compat.tracing.recording import record_program

__all__ = ["check_program", "names", "program", "run_model"]


def program(function: Callable[..., Any], *shapes: Any, emitter: Optional[Emitter] = None) -> Program:
    """Record a function of float32 inputs. A size of None, or a name, is symbolic."""
    ports = [Port("x%d" % k, float32, tuple(shape)) for k, shape in enumerate(shapes)]
    return record_program(lambda *tensors: [function(*tensors)], ports, emitter or SHIM.emitter(), ["y"])


def names(function: Callable[..., Any], *shapes: Any, **named: Any) -> List[str]:
    return [operator.builtin for operator in check_program(function, *shapes, **named)]


def check_program(
    function: Callable[..., Any], *shapes: Any, fed: Any = None, atol: float = 5e-5
) -> List[fb.OperatorSpec]:
    """Assert that the .tflite file of a program gives the results of the reference. Return its operators.

    Each value of the program becomes an additional output, so that a pass which erases a value that is still read
    fails.
    """
    random = np.random.RandomState(0)
    feeds = [np.asarray(3 * random.standard_normal(shape), np.float32) for shape in fed or shapes]
    recorded_program = program(function, *shapes)
    (actual,) = SHIM.compile(recorded_program).run(feeds)
    (wanted,) = emit(program(function, *shapes, emitter=Reference()).region, Reference(), feeds)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=atol)
    with mock.patch.object(building, "optimize"):
        plain = building.build(recorded_program, features.kernels())
    main = plain.subgraphs[0]
    written = [index for operator in main.operators for index in operator.outputs]
    other_results = [index for index in written if index not in main.outputs]
    every = run_model(_with_outputs(plain, other_results), feeds)
    for index, value in zip(other_results, every[1:]):
        model = _with_outputs(plain, [index])
        optimize(model, features.kernels())
        for array, same in zip(run_model(model, feeds), (every[0], value)):
            np.testing.assert_allclose(array, same, rtol=1e-5, atol=atol, err_msg=main.tensors[index].name)
    return list(building.build(recorded_program, features.kernels()).subgraphs[0].operators)


def _with_outputs(model: fb.ModelSpec, outputs: Sequence[int]) -> fb.ModelSpec:
    again = copy.deepcopy(model)
    again.signatures = []
    again.subgraphs[0].outputs += outputs
    return again


def run_model(model: fb.ModelSpec, feeds: Sequence[Any]) -> List[Any]:
    """Return the outputs of a model on the installed runtime, without its default delegate."""
    runtime, _ = features.find_runtime()
    assert runtime is not None
    interpreter = runtime.interpreter(plain=True, model_content=fb.to_bytes(model))
    positions = [detail["index"] for detail in interpreter.get_input_details()]
    for detail, array in zip(interpreter.get_input_details(), feeds):
        if tuple(detail["shape"]) != array.shape:  # LiteRT 1.0 dies of a number that is resized to a number
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for position, array in zip(positions, feeds):
        if array.size:  # tflite-runtime 2.7 allocates no memory for an empty tensor
            interpreter.set_tensor(position, array)
    interpreter.invoke()
    return [_read(interpreter, detail) for detail in interpreter.get_output_details()]


def _read(interpreter: Any, detail: Any) -> Any:
    """Return an output of the interpreter. Runtime 2.7 cannot read an output without elements, so it is created here."""
    return (
        interpreter.get_tensor(detail["index"]) if all(detail["shape"]) else np.zeros(detail["shape"], detail["dtype"])
    )

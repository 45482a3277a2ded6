"""Programs of primitives: the numbers of their files beside those of the reference, and the operators that are in them."""

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

__all__ = ["checked", "names", "program", "run_model"]


def program(function: Callable[..., Any], *shapes: Any, emitter: Optional[Emitter] = None) -> Program:
    """Of inputs of floats; a size that is None or a name is open."""
    ports = [Port("x%d" % k, float32, tuple(shape)) for k, shape in enumerate(shapes)]
    return record_program(lambda *tensors: [function(*tensors)], ports, emitter or SHIM.emitter(), ["y"])


def names(function: Callable[..., Any], *shapes: Any, **named: Any) -> List[str]:
    return [operator.builtin for operator in checked(function, *shapes, **named)]


def checked(function: Callable[..., Any], *shapes: Any, fed: Any = None, atol: float = 5e-5) -> List[fb.OperatorSpec]:
    """The operators, after the numbers of these inputs were compared; also with each value of the program as an output
    beside its own, since a pass may only take away what nobody else reads.
    """
    random = np.random.RandomState(0)
    feeds = [np.asarray(3 * random.standard_normal(shape), np.float32) for shape in fed or shapes]
    made = program(function, *shapes)
    (found,) = SHIM.compile(made).run(feeds)
    (wanted,) = emit(program(function, *shapes, emitter=Reference()).region, Reference(), feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=atol)
    with mock.patch.object(building, "optimize"):
        plain = building.build(made, features.kernels())
    main = plain.subgraphs[0]
    written = [index for operator in main.operators for index in operator.outputs]
    others = [index for index in written if index not in main.outputs]
    every = run_model(_beside(plain, others), feeds)
    for index, value in zip(others, every[1:]):
        model = _beside(plain, [index])
        optimize(model, features.kernels())
        for one, same in zip(run_model(model, feeds), (every[0], value)):
            np.testing.assert_allclose(one, same, rtol=1e-5, atol=atol, err_msg=main.tensors[index].name)
    return list(building.build(made, features.kernels()).subgraphs[0].operators)


def _beside(model: fb.ModelSpec, outputs: Sequence[int]) -> fb.ModelSpec:
    again = copy.deepcopy(model)
    again.signatures = []
    again.subgraphs[0].outputs += outputs
    return again


def run_model(model: fb.ModelSpec, feeds: Sequence[Any]) -> List[Any]:
    """The outputs of a model on the runtime here, without its default delegate."""
    runtime, _ = features.find_runtime()
    assert runtime is not None
    interpreter = runtime.interpreter(plain=True, model_content=fb.to_bytes(model))
    places = [detail["index"] for detail in interpreter.get_input_details()]
    for detail, array in zip(interpreter.get_input_details(), feeds):
        if tuple(detail["shape"]) != array.shape:  # LiteRT 1.0 dies of a number that is resized to a number
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for place, array in zip(places, feeds):
        interpreter.set_tensor(place, array)
    interpreter.invoke()
    return [_read(interpreter, detail) for detail in interpreter.get_output_details()]


def _read(interpreter: Any, detail: Any) -> Any:
    """An output; one of no elements has no memory in 2.7 that could be read."""
    return (
        interpreter.get_tensor(detail["index"]) if all(detail["shape"]) else np.zeros(detail["shape"], detail["dtype"])
    )

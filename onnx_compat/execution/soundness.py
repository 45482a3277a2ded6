"""Decide whether a model may run in onnxruntime in this process.

onnxruntime ends the process for some invalid models, and for some empty tensors, where it should raise an error. So a
model runs in this process only if the core accepts it, or after a run in a child process.
"""

from typing import Any, List, Sequence

from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.plan import Specialisation, program_inputs
from onnx_compat.ir.dims import is_static
from onnx_compat.model import Model, TensorType
from onnx_compat.reference import Reference
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor

__all__ = ["is_sound"]


def is_sound(model: Model) -> bool:
    """Whether the core accepts every node of a model by a trace, and no tensor is empty by its static sizes.

    Nothing is computed but constants. False also for a model that a trace cannot check:

    - An operator is unknown to the core.
    - A required input is no tensor of known dtype and rank.
    - An operator needs a value that is known only at run time.
    - A limit is exceeded.
    """
    from onnx_compat.execution.support import declared_structures

    graph = model.graph
    if any(
        not isinstance(port.type, TensorType) or None in (port.type.dtype, port.type.rank) for port in graph.required
    ):
        return False
    structures = declared_structures(graph)
    ports = program_inputs(graph, structures, Specialisation())
    shapes: List[Sequence[Any]] = [port.sizes for port in ports]
    shapes.extend(initializer.shape for initializer in graph.initializers.values())

    def watch(_: str, value: Any) -> None:
        if isinstance(value, Tensor):
            shapes.append(value.shape)

    def body(*tensors: Tensor) -> Sequence[Tensor]:
        by_name = dict(zip(structures, tensors))
        Interpreter(watch=watch).run(graph, [by_name.get(port.name) for port in graph.inputs])
        return []

    try:
        record_program(body, ports, Reference())
    except OnnxCompatError:
        return False
    return not any(size is not None and is_static(size) and not size for shape in shapes for size in shape)

"""Recording a function over Tensors as a program that a shim can compile."""

from typing import Any, Callable, Optional, Sequence

from onnx_compat.dims import is_known
from onnx_compat.ir import Spec
from onnx_compat.shim import Emitter, Port, Program
from onnx_compat.trace import Trace
from onnx_compat.value import Tensor

__all__ = ["record", "trace_for"]


def trace_for(emitter: Emitter, immediate: bool = False) -> Trace:
    """A trace that lays things out as the emitter wants them, and executes as it goes if asked to."""
    trace = Trace(emitter.layout, emitter.filter_layout, emitter if immediate else None)
    trace.integers = emitter.integers
    return trace


def record(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Port],
    emitter: Emitter,
    output_names: Optional[Sequence[str]] = None,
    name: str = "model",
    trace: Any = None,
) -> Program:
    """The program of `function`, called with one Tensor for each input."""
    trace = trace or trace_for(emitter)
    with trace.active():
        region = trace.region([Spec(port.dtype, port.shape) for port in inputs], function)
    names = output_names or ["output_%d" % k for k in range(len(region.outputs))]
    specs = [output.spec for output in region.outputs]
    outputs = [
        Port(name, spec.dtype, tuple(size if is_known(size) else None for size in spec.shape))
        for name, spec in zip(names, specs)
    ]
    return Program(name, tuple(inputs), tuple(outputs), region)

"""Record a function over Tensors as a program that a shim can compile."""

from typing import Callable, Optional, Sequence

from onnx_compat.ir import Spec, is_verifying
from onnx_compat.ir.dims import is_static
from onnx_compat.primitives.control import result_specs
from onnx_compat.shim.interface import Emitter, Port, Program
from onnx_compat.tracing.trace import Trace, check_tensor_size
from onnx_compat.tracing.values import Tensor

__all__ = ["check_program", "record_program", "start_trace"]


def start_trace(emitter: Emitter, immediate: bool = False) -> Trace:
    """Return a new trace for an emitter's target.

    If `immediate`, the emitter must be concrete: it executes each node when the node is recorded.
    """
    return Trace(emitter.target, emitter if immediate else None)


def record_program(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Port],
    emitter: Emitter,
    output_names: Optional[Sequence[str]] = None,
    name: str = "model",
    trace: Optional[Trace] = None,
) -> Program:
    """Call `function` with a Tensor for each port of `inputs`, and return the program that computes its results.

    - output_names: the names of the outputs, in order; by default output_0, output_1, …
    - trace: the trace that records the program; by default a new trace for `emitter`.

    In the output ports of the program, a symbolic size is None.

    - Raises LimitError if an input exceeds the limit `tensor_elements`.
    - Raises VerificationError if the program has a defect, with ONNX_COMPAT_VERIFY=1.
    - Errors of `function` propagate.
    """
    for port in inputs:
        check_tensor_size(port.shape, "the input '%s'" % port.name)
    trace = trace or start_trace(emitter)
    with trace.active():
        region = trace.region([Spec(port.dtype, port.shape) for port in inputs], function)
    names = output_names or ["output_%d" % k for k in range(len(region.outputs))]
    specs = result_specs(region)
    outputs = [
        Port(name, spec.dtype, tuple(size if is_static(size) else None for size in spec.shape))
        for name, spec in zip(names, specs)
    ]
    return check_program(Program(name, tuple(inputs), tuple(outputs), region))


def check_program(program: Program) -> Program:
    """Return the program. If ONNX_COMPAT_VERIFY=1, verify it first, and raise VerificationError if it has a defect."""
    if is_verifying():
        from onnx_compat.ir.verifier import verify_program

        verify_program(program)
    return program

"""Compile a recorded program into a TFLite model."""

from onnx_compat.passes import run_program_passes
from onnx_compat.shim import Program, emit
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.emitter import TFLiteEmitter
from onnx_compat_tflite.file_ports import DESCRIPTION
from onnx_compat_tflite.graph_verifier import check_graph
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes import PROGRAM, optimize
from onnx_compat_tflite.subgraph_builder import storage_type

__all__ = ["SIGNATURE", "build"]

SIGNATURE = "serving_default"


def build(program: Program, kernels: Kernels, own: bool = False) -> fb.ModelSpec:
    """Run all passes on a recorded program, and return the TFLite model with the signature `serving_default`.

    The program passes run before the program is emitted, the graph passes after it. The model has only ops that the
    runtime of `kernels` has. Its weights may be views of the program's arrays.

    `own`: True if no other caller uses the program. `build` then releases the program's region to save memory.

    Raises UnsupportedError if the kernels cannot compute the program. With ONNX_COMPAT_VERIFY=1, raises
    VerificationError if the model has a defect.
    """
    model = _emit_program(program, kernels)
    if own:
        program.region.release()
    optimize(model, kernels)
    main = model.subgraphs[0]
    inputs = dict(zip([port.name for port in program.inputs], main.inputs))
    outputs = dict(zip([port.name for port in program.outputs], main.outputs))
    model.signatures.append(fb.Signature(inputs, outputs, SIGNATURE))
    return check_graph(model, "signatures")


def _emit_program(program: Program, kernels: Kernels) -> fb.ModelSpec:
    """Run the program passes, emit the resulting region, and return the model as it is before the graph passes.

    Tensors of inputs and outputs have the names of their ports. An output with the name of an input gets the suffix
    ":0".
    """
    emitter = TFLiteEmitter(kernels)
    builder = emitter.builder
    graph = builder.graph
    handles = [
        graph.add_input(port.name, builder.require_type(storage_type(port.dtype.numpy)), ref.spec.shape)
        for port, ref in zip(program.inputs, program.region.inputs)
    ]
    region = run_program_passes(PROGRAM, program.region, emitter)
    outputs = emit(region, emitter, handles)
    if region is not program.region:
        region.release()  # nodes and values form cycles: without this the weights stay until a garbage collection
    input_names = {port.name for port in program.inputs}
    names = [port.name if port.name not in input_names else port.name + ":0" for port in program.outputs]
    graph.finish(outputs, names)
    graph.spec.name = program.name or "main"
    return check_graph(fb.ModelSpec([graph.spec for graph in builder.graphs], description=DESCRIPTION), "emission")

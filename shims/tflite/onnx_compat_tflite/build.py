"""A recorded program as a TFLite model."""

from onnx_compat.emission import emit
from onnx_compat.shim import Program
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.emitter import TFLiteEmitter
from onnx_compat_tflite.graph import held
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.loading import DESCRIPTION
from onnx_compat_tflite.passes import improve
from onnx_compat_tflite.passes.recorded import named

__all__ = ["SIGNATURE", "build"]

SIGNATURE = "serving_default"


def build(program: Program, kernels: Kernels) -> fb.ModelSpec:
    """The program in operators that these kernels have; weights are views of the program's until they are written."""
    emitter = TFLiteEmitter(kernels)
    graph = emitter.graph
    handles = [
        graph.input(port.name, emitter.known_type(held(port.dtype.numpy)), ref.spec.shape)
        for port, ref in zip(program.inputs, program.region.inputs)
    ]
    outputs = emit(named(program.region, kernels), emitter, handles)
    names = [port.name for port in program.outputs]
    taken = {port.name for port in program.inputs}
    graph.finish(outputs, [name if name not in taken else name + ":0" for name in names])
    graph.spec.name = program.name or "main"
    model = fb.ModelSpec([one.spec for one in emitter.graphs], description=DESCRIPTION)
    improve(model, kernels)
    main = model.subgraphs[0]
    inputs = dict(zip([port.name for port in program.inputs], main.inputs))
    model.signatures.append(fb.Signature(inputs, dict(zip(names, main.outputs)), SIGNATURE))
    return model

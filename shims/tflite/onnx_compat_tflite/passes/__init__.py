"""The passes of a conversion to TFLite, and the order in which they run.

The passes of `PROGRAM` rewrite the recorded program before it is emitted, those of `GRAPH` the emitted TFLite subgraphs. A pass
keeps the inputs, the outputs and the results of the model. docs/passes.md lists all passes; CONTRIBUTING.md tells how to
add a pass.
"""

from onnx_compat.passes import CORE, Schedule, check_names, count_rewrites, naming
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.graph_verifier import check_graph
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes.activation_fusion import activation_fusion
from onnx_compat_tflite.passes.affine_folding import affine_after_layer, affine_before_layer
from onnx_compat_tflite.passes.attention_scale import attention_scale
from onnx_compat_tflite.passes.bias_folding import bias_folding
from onnx_compat_tflite.passes.channel_scales import channel_scales
from onnx_compat_tflite.passes.channel_shuffles import channel_shuffles
from onnx_compat_tflite.passes.common_subexpressions import common_subexpressions
from onnx_compat_tflite.passes.composed_activations import composed_activations
from onnx_compat_tflite.passes.constant_factors import constant_factors
from onnx_compat_tflite.passes.contract import Context
from onnx_compat_tflite.passes.dead_code import dead_code
from onnx_compat_tflite.passes.depth_to_space import depth_to_space
from onnx_compat_tflite.passes.depthwise_splitting import depthwise_splitting
from onnx_compat_tflite.passes.dilated_convolutions import dilated_splitting, padding_taps
from onnx_compat_tflite.passes.disjoint_transpose_conv import disjoint_transpose_conv
from onnx_compat_tflite.passes.fully_connected_reshapes import fully_connected_reshapes
from onnx_compat_tflite.passes.hard_activations import hard_activations
from onnx_compat_tflite.passes.identities import identities
from onnx_compat_tflite.passes.inplace_hazards import inplace_hazards
from onnx_compat_tflite.passes.int8_casts import int8_casts
from onnx_compat_tflite.passes.integers import integer_kernels
from onnx_compat_tflite.passes.loop_invariants import loop_invariants
from onnx_compat_tflite.passes.nested_concatenations import nested_concatenations
from onnx_compat_tflite.passes.padding import pad_before_transpose, same_padding
from onnx_compat_tflite.passes.redundant_reshapes import redundant_reshapes
from onnx_compat_tflite.passes.slices import slices_to_split, split_before_reshape
from onnx_compat_tflite.passes.space_to_depth_conv import space_to_depth_conv
from onnx_compat_tflite.passes.transpose_conv_cropping import transpose_conv_cropping

__all__ = ["GRAPH", "PROGRAM", "optimize"]

PROGRAM = Schedule([transpose_conv_cropping, composed_activations])

GRAPH = Schedule(
    [
        loop_invariants,
        redundant_reshapes,
        hard_activations,
        same_padding,
        padding_taps,
        integer_kernels,
        identities,
        common_subexpressions,
        dead_code,
        constant_factors,
        attention_scale,
        dead_code,
        affine_after_layer,
        affine_before_layer,
        nested_concatenations,
        fully_connected_reshapes,
        activation_fusion,
        bias_folding,
        channel_shuffles,
        depth_to_space,
        space_to_depth_conv,
        channel_scales,
        depthwise_splitting,
        dilated_splitting,
        disjoint_transpose_conv,
        pad_before_transpose,
        slices_to_split,
        split_before_reshape,
        int8_casts,
        dead_code,
        inplace_hazards,
    ]
)


def optimize(model: fb.ModelSpec, kernels: Kernels) -> None:
    """Run the graph passes on every subgraph of the model, in place, and count their rewrites in the open report.

    `kernels`: the kernels of the target runtime; passes insert only ops that it has. Passes that ONNX_COMPAT_PASSES
    excludes are skipped. With ONNX_COMPAT_VERIFY=1, the model is verified after each pass; a defect raises
    VerificationError.

    Raises InputError if ONNX_COMPAT_PASSES is malformed or names an unknown pass. Raises VerificationError if a pass
    raises an exception other than OnnxCompatError and MemoryError.
    """
    check_names([*CORE.distinct, *PROGRAM.distinct, *GRAPH.distinct])
    context = Context(model, kernels)
    for pass_ in GRAPH.select():
        with naming(pass_):
            rewrites = context.apply(pass_)
        count_rewrites(pass_, rewrites)
        check_graph(model, "the pass '%s'" % pass_.name)

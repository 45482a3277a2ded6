"""The passes that simplify a model, and the order in which they run.

Each module holds one pass, or a family of passes. Its docstring begins with `before => after` and the conditions.
"""

from onnx_compat.passes.schedule import Schedule
from onnx_compat.simplify.rewrites.casts import merged_casts, same_type_casts
from onnx_compat.simplify.rewrites.common_subexpressions import common_subexpressions, shared_initializers
from onnx_compat.simplify.rewrites.concats import merged_concats
from onnx_compat.simplify.rewrites.constant_folding import constant_folding
from onnx_compat.simplify.rewrites.dead_code import dead_code
from onnx_compat.simplify.rewrites.equal_values import equal_values
from onnx_compat.simplify.rewrites.gemm import gemm_bias, gemm_transposes
from onnx_compat.simplify.rewrites.input_scales import input_scales
from onnx_compat.simplify.rewrites.known_branches import known_branches
from onnx_compat.simplify.rewrites.layer_scales import layer_scales
from onnx_compat.simplify.rewrites.neutral_elements import neutral_elements
from onnx_compat.simplify.rewrites.padding import layer_padding
from onnx_compat.simplify.rewrites.reshapes import merged_reshapes, reshape_sizes
from onnx_compat.simplify.rewrites.single_elements import single_elements
from onnx_compat.simplify.rewrites.slices import merged_slices
from onnx_compat.simplify.rewrites.transposes import merged_transposes
from onnx_compat.simplify.rewrites.zero_states import zero_states

__all__ = ["SCHEDULE"]

#: The passes in running order. They run again until none rewrites anything.
SCHEDULE = Schedule(
    [
        dead_code,
        constant_folding,
        known_branches,
        equal_values,
        neutral_elements,
        single_elements,
        zero_states,
        reshape_sizes,
        merged_reshapes,
        merged_transposes,
        same_type_casts,
        merged_casts,
        merged_concats,
        merged_slices,
        layer_padding,
        layer_scales,
        input_scales,
        gemm_bias,
        gemm_transposes,
        shared_initializers,
        common_subexpressions,
    ]
)

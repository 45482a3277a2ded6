"""Improving a finished list of operators, without changing what it computes.

A pass is a function that changes one subgraph in place. It looks at it through a `View`, and may take away only what nobody
else reads: an output is read from outside. Operators that a pass leaves without readers are dropped by `sweep`.
"""

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes.activation import fuse_activations
from onnx_compat_tflite.passes.biases import join_biases
from onnx_compat_tflite.passes.blocks import multiply_blocks
from onnx_compat_tflite.passes.bytes import spell_bytes
from onnx_compat_tflite.passes.depthwise import share_taps
from onnx_compat_tflite.passes.filters import fold_into_filters, fold_into_next_filters
from onnx_compat_tflite.passes.hard import name_activations
from onnx_compat_tflite.passes.integers import use_integers
from onnx_compat_tflite.passes.loops import drop_states
from onnx_compat_tflite.passes.moves import drop_moves
from onnx_compat_tflite.passes.neutral import drop_neutral
from onnx_compat_tflite.passes.overwriting import prevent_overwriting
from onnx_compat_tflite.passes.padding import fold_padding, pad_rows
from onnx_compat_tflite.passes.pixels import name_blocks
from onnx_compat_tflite.passes.products import drop_flattening, join_factors
from onnx_compat_tflite.passes.repeats import join_joined, share_results
from onnx_compat_tflite.passes.samples import read_in_steps
from onnx_compat_tflite.passes.scales import scale_channels
from onnx_compat_tflite.passes.scores import join_scales
from onnx_compat_tflite.passes.shuffles import absorb_shuffles
from onnx_compat_tflite.passes.splits import join_slices, split_before_reshapes
from onnx_compat_tflite.passes.sweep import sweep
from onnx_compat_tflite.quantize.schemes import KEY, MODELS_OWN

__all__ = ["improve"]


def improve(model: fb.ModelSpec, kernels: Kernels) -> None:
    """Every subgraph, in place, for these kernels. A subgraph keeps its inputs and outputs."""
    drop_states(model)
    for graph in model.subgraphs:
        drop_moves(graph)
        name_activations(graph)
        fold_padding(graph)
        if use_integers(graph):  # before `drop_neutral`: it knows a quantization by its division, also by one
            model.metadata[KEY] = MODELS_OWN.kind.encode()
        drop_neutral(graph)
        share_results(graph)
        sweep(graph)  # what nobody reads any more would count as a reader
        join_factors(graph)
        join_scales(graph)
        sweep(graph)
        # Factors before activations, which would stand between them and their layer once they are part of it.
        fold_into_filters(graph)
        fold_into_next_filters(graph)
        join_joined(graph)
        drop_flattening(graph)
        fuse_activations(graph, kernels)
        join_biases(graph)
        # What makes of a layer several operators comes when the layer is complete.
        absorb_shuffles(graph)
        name_blocks(graph)
        read_in_steps(graph)
        scale_channels(graph)
        share_taps(graph)
        multiply_blocks(graph)
        pad_rows(graph)
        join_slices(graph)
        split_before_reshapes(graph)
        spell_bytes(graph, kernels)
        sweep(graph)
        prevent_overwriting(graph)

"""Passes over TFLite graphs: their signature, their context, and the construction of example graphs."""

from typing import Any, Callable, List, Optional, Sequence, Type, Union

import numpy as np

from onnx_compat.passes import Pass
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes.rewriter import ArrayLike, GraphRewriter, Option

__all__ = ["Context", "ExampleGraph", "GraphPass", "graph_pass"]

DTypeLike = Union[str, Type[Any]]


class Context:
    """The context of a pass: the kernels of the runtime, and the other subgraphs of the model."""

    def __init__(self, model: fb.ModelSpec, kernels: Kernels) -> None:
        self._model = model
        self._rewriters = [GraphRewriter(graph) for graph in model.subgraphs]
        self.kernels = kernels

    def subgraph(self, index: int) -> GraphRewriter:
        """Return the subgraph of a branch or of a loop body, by its index in the model."""
        return self._rewriters[index]

    def apply(self, pass_: Pass) -> int:
        """Run a pass on every subgraph. Returns the number of rewrites.

        Bodies of loops and branches come behind their callers in the file, and are rewritten first.
        """
        for graph in self._rewriters:
            graph.start_pass()
        return sum(pass_.apply(graph, self) for graph in self._rewriters[::-1])

    def set_metadata(self, key: str, value: bytes) -> None:
        """Write an entry of the metadata of the file."""
        self._model.metadata[key] = value


class GraphPass(Pass):
    """A rewrite of one subgraph. `apply(graph, context)` returns the number of rewrites; `example()` builds a model."""

    kind = "graph"
    apply: Callable[[GraphRewriter, Context], int]
    example: Callable[[], fb.ModelSpec]


def graph_pass(
    name: str,
    summary: str,
    example: Callable[[], fb.ModelSpec],
    after: Sequence[str] = (),
    before: Sequence[str] = (),
    legalizes: bool = False,
) -> Callable[[Callable[[GraphRewriter, Context], int]], GraphPass]:
    """Declare a function over a rewriter and a context as a pass. The arguments are those of `onnx_compat.passes.Pass`."""
    return lambda apply: GraphPass(name, summary, apply, example, after, before, legalizes)


class ExampleGraph:
    """A small subgraph under construction. The inputs are float32 tensors of these shapes, unless `dtype` says otherwise."""

    def __init__(self, *shapes: Sequence[int], dtype: str = "float32", name: str = "main") -> None:
        self.spec = fb.SubGraph(name=name)
        self.inputs = [self._tensor("x%d" % k, dtype, shape) for k, shape in enumerate(shapes)]
        self.spec.inputs = list(self.inputs)

    def constant(self, values: ArrayLike, dtype: DTypeLike = np.float32) -> int:
        """Add a constant. Return its index."""
        array = np.asarray(values, dtype)
        return self.spec.add(fb.TensorSpec(self._name("constant"), array.dtype.name, array.shape, array))

    def filters(self, *shape: int) -> int:
        """Add a constant of multiples of 1/4, different within a row of 7, so that sums of products are exact. Return its index."""
        return self.constant(((np.arange(np.prod(shape)) % 7 - 3) / 4).reshape(shape))

    def op(
        self,
        builtin: str,
        inputs: Sequence[Optional[int]],
        shape: Sequence[int],
        dtype: str = "float32",
        **options: Option,
    ) -> int:
        """Append an operator. Returns the tensor that it writes."""
        result = self._tensor(self._name(builtin.lower()), dtype, shape)
        self.spec.operators.append(fb.OperatorSpec(builtin, list(inputs), [result], options))
        return result

    def conv(
        self,
        x: int,
        filters: int,
        shape: Sequence[int],
        builtin: str = "CONV_2D",
        padding: str = "VALID",
        **options: Option,
    ) -> int:
        """Append a convolution with a bias of zeros. Strides and dilations default to 1."""
        steps = dict.fromkeys(("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor"), 1)
        if builtin == "DEPTHWISE_CONV_2D":
            steps["depth_multiplier"] = 1
        bias = self.constant(np.zeros(shape[-1]))
        return self.op(builtin, [x, filters, bias], shape, padding=padding, **{**steps, **options})

    def move(self, builtin: str, x: int, argument: Sequence[int], shape: Sequence[int]) -> int:
        """Append an operator with a vector of integers as its second input: RESHAPE, TRANSPOSE."""
        dtype = self.spec.tensors[x].dtype
        return self.op(builtin, [x, self.constant(argument, np.int32)], shape, dtype)

    def slices(self, x: int, starts: Sequence[Sequence[int]], shape: Sequence[int]) -> List[int]:
        """Append SLICEs of the same shape that begin at these positions."""
        return [
            self.op("SLICE", [x, self.constant(start, np.int32), self.constant(shape, np.int32)], shape)
            for start in starts
        ]

    def model(self, *outputs: int, bodies: Sequence["ExampleGraph"] = ()) -> fb.ModelSpec:
        """Return the model with these outputs, and with the subgraphs that it calls."""
        self.finish(*outputs)
        return fb.ModelSpec([self.spec, *[body.spec for body in bodies]])

    def finish(self, *outputs: int) -> "ExampleGraph":
        """Declare the outputs of a subgraph that another one calls."""
        self.spec.outputs = list(outputs)
        return self

    def _tensor(self, name: str, dtype: str, shape: Sequence[int]) -> int:
        return self.spec.add(fb.TensorSpec(name, dtype, shape))

    def _name(self, stem: str) -> str:
        return "%s/%s_%d" % (self.spec.name, stem, len(self.spec.tensors))

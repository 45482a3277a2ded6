"""The interface of passes over TFLite subgraphs: `graph_pass` declares a pass, `ExampleGraph` builds its example."""

from typing import Any, Callable, List, Optional, Sequence, Type, Union

import numpy as np

from onnx_compat.passes import Pass
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes.rewriter import ArrayLike, GraphRewriter, Option

__all__ = ["Context", "ExampleGraph", "GraphPass", "graph_pass"]

DTypeLike = Union[str, Type[Any]]


class Context:
    """The context of a pass: the kernels of the target runtime, and a rewriter for each subgraph of the model."""

    def __init__(self, model: fb.ModelSpec, kernels: Kernels) -> None:
        self._model = model
        self._rewriters = [GraphRewriter(graph) for graph in model.subgraphs]
        self.kernels = kernels

    def subgraph(self, index: int) -> GraphRewriter:
        """Return the rewriter of the subgraph with this index in the model, such as a branch or the body of a loop."""
        return self._rewriters[index]

    def apply(self, pass_: Pass) -> int:
        """Run a pass on every subgraph, the last first, and return the number of rewrites in all subgraphs.

        A body of a loop or a branch comes after its caller in the file, so it is rewritten before its caller.
        """
        for graph in self._rewriters:
            graph.start_pass()
        return sum(pass_.apply(graph, self) for graph in self._rewriters[::-1])

    def set_metadata(self, key: str, value: bytes) -> None:
        """Set the entry `key` of the metadata of the file."""
        self._model.metadata[key] = value


class GraphPass(Pass):
    """A pass over a TFLite subgraph. `apply(graph, context)` rewrites the subgraph and returns the number of rewrites.

    `example()` builds a model on which the pass acts.
    """

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
    """Return a decorator that turns a function `(graph, context) -> number of rewrites` into a GraphPass.

    - name: the name of the pass in `ONNX_COMPAT_PASSES` and in reports.
    - summary: "before => after", and the condition under which the rewrite holds.
    - example: a function that builds a model on which the pass acts.
    - after, before: the names of the passes that must run before (after) this pass.
    - legalizes: True if a runtime refuses or misreads a file without this rewrite.
    """
    return lambda apply: GraphPass(name, summary, apply, example, after, before, legalizes)


class ExampleGraph:
    """Builder of a small subgraph, the example of a pass, with one input of dtype `dtype` for each of `shapes`.

    `inputs`: the tensor indices of the inputs. `spec`: the subgraph. `name`: the name of the subgraph, with which the
    names of its constants and results begin.
    """

    def __init__(self, *shapes: Sequence[int], dtype: str = "float32", name: str = "main") -> None:
        self.spec = fb.SubGraph(name=name)
        self.inputs = [self._tensor("x%d" % k, dtype, shape) for k, shape in enumerate(shapes)]
        self.spec.inputs = list(self.inputs)

    def constant(self, values: ArrayLike, dtype: DTypeLike = np.float32) -> int:
        """Append a constant tensor with these values, as float32 or `dtype`, and return its index."""
        array = np.asarray(values, dtype)
        return self.spec.add(fb.TensorSpec(self._name("constant"), array.dtype.name, array.shape, array))

    def filters(self, *shape: int) -> int:
        """Append a constant of this shape with the elements -3/4, -2/4, ..., 3/4, repeated; return its index.

        Sums of their products are exact in float32.
        """
        return self.constant(((np.arange(np.prod(shape)) % 7 - 3) / 4).reshape(shape))

    def op(
        self,
        builtin: str,
        inputs: Sequence[Optional[int]],
        shape: Sequence[int],
        dtype: str = "float32",
        **options: Option,
    ) -> int:
        """Append an operator with a single result of this shape and dtype, and return the index of the result.

        `builtin`: the op. `inputs`: tensor indices, None for an omitted input. `options`: the options of the op.
        """
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
        """Append a convolution of `x` with a bias of zeros, and return the index of its result.

        `x` and `filters` are tensor indices; `shape` is the shape of the result. Strides, dilations and the depth
        multiplier of a DEPTHWISE_CONV_2D are 1, unless `options` sets them.
        """
        steps = dict.fromkeys(("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor"), 1)
        if builtin == "DEPTHWISE_CONV_2D":
            steps["depth_multiplier"] = 1
        bias = self.constant(np.zeros(shape[-1]))
        return self.op(builtin, [x, filters, bias], shape, padding=padding, **{**steps, **options})

    def move(self, builtin: str, x: int, argument: Sequence[int], shape: Sequence[int]) -> int:
        """Append an op whose second input is the int32 constant `argument`, such as RESHAPE or TRANSPOSE.

        Returns the index of its result. The result has this shape and the dtype of `x`.
        """
        dtype = self.spec.tensors[x].dtype
        return self.op(builtin, [x, self.constant(argument, np.int32)], shape, dtype)

    def slices(self, x: int, starts: Sequence[Sequence[int]], shape: Sequence[int]) -> List[int]:
        """Append a SLICE of `x` with this shape for each start position, and return the indices of their results."""
        return [
            self.op("SLICE", [x, self.constant(start, np.int32), self.constant(shape, np.int32)], shape)
            for start in starts
        ]

    def model(self, *outputs: int, bodies: Sequence["ExampleGraph"] = ()) -> fb.ModelSpec:
        """Set the outputs of this subgraph to `outputs`, and return a model with this subgraph as the first.

        `bodies` are the subgraphs that this subgraph calls; call their method `finish` before. They follow this
        subgraph in the model, so the first of them has the index 1.
        """
        self.finish(*outputs)
        return fb.ModelSpec([self.spec, *[body.spec for body in bodies]])

    def finish(self, *outputs: int) -> "ExampleGraph":
        """Set the outputs of the subgraph, and return the builder.

        For bodies of loops and branches; `model` sets the outputs of the main subgraph.
        """
        self.spec.outputs = list(outputs)
        return self

    def _tensor(self, name: str, dtype: str, shape: Sequence[int]) -> int:
        return self.spec.add(fb.TensorSpec(name, dtype, shape))

    def _name(self, stem: str) -> str:
        return "%s/%s_%d" % (self.spec.name, stem, len(self.spec.tensors))

"""The TensorFlow emitters: `GraphEmitter` adds operations to a graph, `EagerEmitter` executes them at once."""

import functools
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional, Tuple

import numpy as np

from onnx_compat.primitives import PRIMITIVES
from onnx_compat_tensorflow.control import Control
from onnx_compat_tensorflow.convolution import Convolution
from onnx_compat_tensorflow.devices import placement
from onnx_compat_tensorflow.fast_grid import FastGrid
from onnx_compat_tensorflow.fast_lstm import FastLstm
from onnx_compat_tensorflow.fast_paths import FastPaths
from onnx_compat_tensorflow.fast_resize import FastResize
from onnx_compat_tensorflow.features import Features
from onnx_compat_tensorflow.framework_types import TfTensor
from onnx_compat_tensorflow.indexing import Indexing
from onnx_compat_tensorflow.names import scope
from onnx_compat_tensorflow.pooling import Pooling
from onnx_compat_tensorflow.random import Random
from onnx_compat_tensorflow.reduction import Reduction
from onnx_compat_tensorflow.tensors import decode, static_shape
from onnx_compat_tensorflow.text import Text

__all__ = ["EagerEmitter", "GraphEmitter"]


class GraphEmitter(
    FastGrid, FastLstm, FastPaths, FastResize, Convolution, Pooling, Indexing, Reduction, Control, Random, Text
):
    """An emitter that adds the operations of each primitive to the default graph.

    The operations are in a name scope with the name of the ONNX node (see `scope`). Each result gets the static shape
    that the program declares.
    """

    _entered_node: Any = None


class EagerEmitter(GraphEmitter):
    """Execute each primitive eagerly on `device` (None: TensorFlow chooses). Handles are eager tensors."""

    concrete = True

    def __init__(self, features: Features, device: Optional[str] = None) -> None:
        super().__init__(features)
        self.device = device

    @contextmanager
    def device_context(self) -> Iterator[None]:
        with placement(self.tf, self.device):
            yield

    def dim(self, handle: TfTensor, axis: int) -> int:
        return int(handle.shape[axis])

    def shape(self, handle: TfTensor) -> Tuple[int, ...]:
        return tuple(handle.shape.as_list())

    def fetch(self, handle: TfTensor) -> np.ndarray:
        return decode(handle.numpy())


def _in_node_scope(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of the emitter method of the primitive or native operator `name`.

    On a graph emitter, the first call for a node whose primitive is `name` adds its operations in the name scope of the
    node. It also sets the static shapes of the node's results.

    Any other call, such as a call by the method of another primitive, only calls `method`.
    """

    @functools.wraps(method)
    def call_in_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = getattr(self, "node", None)
        if self.concrete or node is None or node.primitive != name or self._entered_node is node:
            return method(self, *args, **kwargs)
        self._entered_node = node
        # A name that ends in a slash enters the existing scope; without it TensorFlow would number a new scope.
        scope_name = scope(node.origin.node) if node.origin is not None else "onnx"
        with self.tf.compat.v1.name_scope(scope_name + "/"):
            results = method(self, *args, **kwargs)
        handles = results if isinstance(results, (tuple, list)) else (results,)
        for handle, output in zip(handles, node.outputs):
            handle.set_shape(static_shape(output.spec.shape))
        return results

    return call_in_scope


def _is_native_operator(name: str) -> bool:
    """Whether GraphEmitter has a method of this name with the decorator @native: it computes a whole ONNX operator."""
    return isinstance(getattr(getattr(GraphEmitter, name, None), "native", None), tuple)


for _name in [*PRIMITIVES, *filter(_is_native_operator, dir(GraphEmitter))]:
    if hasattr(GraphEmitter, _name):  # a primitive without a method runs in the fallback
        setattr(GraphEmitter, _name, _in_node_scope(_name, getattr(GraphEmitter, _name)))

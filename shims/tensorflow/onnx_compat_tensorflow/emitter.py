"""The primitives over TensorFlow tensors: in a graph, or eagerly."""

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
from onnx_compat_tensorflow.indexing import Indexing
from onnx_compat_tensorflow.names import scope
from onnx_compat_tensorflow.pooling import Pooling
from onnx_compat_tensorflow.random import Random
from onnx_compat_tensorflow.reduction import Reduction
from onnx_compat_tensorflow.tensors import decoded, static_shape
from onnx_compat_tensorflow.text import Text

__all__ = ["EagerEmitter", "GraphEmitter"]


class GraphEmitter(
    FastGrid, FastLstm, FastPaths, FastResize, Convolution, Pooling, Indexing, Reduction, Control, Random, Text
):
    """Builds operations in the default graph, in a name scope for each ONNX node."""

    _entered: Any = None


class EagerEmitter(GraphEmitter):
    """Executes as it goes: handles hold values."""

    concrete = True

    def __init__(self, features: Features, device: Optional[str] = None) -> None:
        super().__init__(features)
        self.device = device

    @contextmanager
    def placed(self) -> Iterator[None]:
        with placement(self.tf, self.device):
            yield

    def dim(self, handle: Any, axis: int) -> int:
        return int(handle.shape[axis])

    def shape(self, handle: Any) -> Tuple[int, ...]:
        return tuple(handle.shape.as_list())

    def fetch(self, handle: Any) -> np.ndarray:
        return decoded(handle.numpy())


def _placed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a primitive, in the scope of its node, its results with the shapes that the model tells of them.

    Only where it is called for a node: methods also use each other, and sizes are computed with them.
    """

    @functools.wraps(method)
    def applied(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = getattr(self, "node", None)
        if self.concrete or node is None or node.primitive != name or self._entered is node:
            return method(self, *args, **kwargs)
        self._entered = node
        # A scope that ends in a slash is entered again as it is, not made anew.
        place = scope(node.origin.node) if node.origin is not None else "onnx"
        with self.tf.compat.v1.name_scope(place + "/"):
            results = method(self, *args, **kwargs)
        together = results if isinstance(results, (tuple, list)) else (results,)
        for handle, output in zip(together, node.outputs):
            handle.set_shape(static_shape(output.spec.shape))
        return results

    return applied


def _whole(name: str) -> bool:
    """Whether the method is a fast path for a whole operator."""
    return isinstance(getattr(getattr(GraphEmitter, name, None), "native", None), tuple)


for _name in [*PRIMITIVES, *filter(_whole, dir(GraphEmitter))]:
    if hasattr(GraphEmitter, _name):  # a primitive that is new to the core runs in the fallback
        setattr(GraphEmitter, _name, _placed(_name, getattr(GraphEmitter, _name)))

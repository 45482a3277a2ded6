"""The complete emitter of functional Keras models, with the native operators for which Keras has a layer."""

from typing import Any, Optional, Tuple

from onnx_compat.shim import UnsupportedError
from onnx_compat_keras.arrays.normalization import first_result_only
from onnx_compat_keras.arrays.resampling import sampling
from onnx_compat_keras.framework_types import Handle
from onnx_compat_keras.functional.random import Random
from onnx_compat_keras.functional.recurrent import Recurrent
from onnx_compat_keras.functional.unsigned import FunctionalUnsigned64
from onnx_compat_keras.functional.windows import Windows

__all__ = ["Symbolic"]


class Symbolic(FunctionalUnsigned64, Windows, Random, Recurrent):
    """The emitter of functional Keras models.

    Its methods raise UnsupportedError for nodes that layers and operations of Keras cannot express exactly.
    """

    def batch_normalization(
        self,
        x: Handle,
        scale: Handle,
        bias: Handle,
        mean: Handle,
        var: Handle,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        **_: object,
    ) -> Handle:
        weights = [known.array for known in (scale, bias, mean, var)]
        return self.layer(
            "BatchNormalization", self.tensor(x), weights=weights, axis=-1, epsilon=float(epsilon),
            momentum=float(momentum),
        )  # fmt: skip

    def layer_normalization(
        self,
        x: Handle,
        scale: Optional[Handle] = None,
        bias: Optional[Handle] = None,
        axis: int = -1,
        epsilon: float = 1e-5,
        **_: object,
    ) -> Tuple[Handle, ...]:
        weights = [known.array for known in (scale, bias) if known is not None]
        normal = self.layer(
            "LayerNormalization", self.tensor(x), weights=weights, axis=-1, epsilon=float(epsilon),
            scale=scale is not None, center=bias is not None,
        )  # fmt: skip
        return first_result_only(self.node, normal)

    def det(self, x: Handle) -> Handle:
        return self.ops.det(self.tensor(x))

    def gradient(self, *_: object, **__: object) -> Tuple[Handle, ...]:
        raise UnsupportedError(
            "a functional Keras model holds no derivative of a part of itself", hint="train the model in Keras instead"
        )

    def resize(self, *args: Optional[Handle], **_: object) -> Handle:
        mode, factors = sampling(self.node)
        size = factors[0] if len(factors) == 1 else factors
        options: Any = {} if len(factors) == 1 else {"data_format": "channels_last"}
        if len(factors) == 2:
            options["interpolation"] = mode
        return self.layer("UpSampling%dD" % len(factors), self.tensor(args[0]), size=size, **options)

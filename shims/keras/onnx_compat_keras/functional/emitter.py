"""The emitter of functional models."""

from typing import Any

from onnx_compat.shim import UnsupportedError
from onnx_compat_keras.arrays.normalization import alone
from onnx_compat_keras.arrays.resampling import sampling
from onnx_compat_keras.functional.elementwise import Elementwise
from onnx_compat_keras.functional.indexing import Indexing
from onnx_compat_keras.functional.recurrent import Recurrent
from onnx_compat_keras.functional.reduction import Reduction
from onnx_compat_keras.functional.shape import Shape
from onnx_compat_keras.functional.windows import Windows

__all__ = ["Symbolic"]


class Symbolic(Elementwise, Windows, Shape, Indexing, Reduction, Recurrent):
    """Every primitive that a functional model of stock layers can hold; the others are refused by name."""

    def batch_normalization(
        self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5, momentum: float = 0.9, **_: Any
    ) -> Any:
        weights = [known.array for known in (scale, bias, mean, var)]
        return self.layer(
            "BatchNormalization", self.tensor(x), weights=weights, axis=-1, epsilon=float(epsilon),
            momentum=float(momentum),
        )  # fmt: skip

    def layer_normalization(
        self, x: Any, scale: Any = None, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, **_: Any
    ) -> Any:
        weights = [known.array for known in (scale, bias) if known is not None]
        normal = self.layer(
            "LayerNormalization", self.tensor(x), weights=weights, axis=-1, epsilon=float(epsilon),
            scale=scale is not None, center=bias is not None,
        )  # fmt: skip
        return alone(self.node, normal)

    def gradient(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(
            "a functional Keras model holds no derivative of a part of itself", hint="train the model in Keras instead"
        )

    def resize(self, *args: Any, **_: Any) -> Any:
        mode, factors = sampling(self.node)
        size = factors[0] if len(factors) == 1 else factors
        options: Any = {} if len(factors) == 1 else {"data_format": "channels_last"}
        if len(factors) == 2:
            options["interpolation"] = mode
        return self.layer("UpSampling%dD" % len(factors), self.tensor(args[0]), size=size, **options)

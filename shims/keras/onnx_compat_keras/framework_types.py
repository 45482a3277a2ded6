"""Type aliases for objects of Keras and its back ends, which ship no annotations that are valid for all their releases.

To a type checker each alias is `Any`; its name tells a reader the kind of the object.
"""

from typing import Any, Callable, Mapping, Sequence, Tuple

__all__ = [
    "Array",
    "Attributes",
    "BackEndDevice",
    "Bodies",
    "DTypeOfBackEnd",
    "Handle",
    "Handles",
    "Ints",
    "KerasModel",
    "KerasOps",
    "Number",
    "Pads",
    "Scalar",
    "SymbolicTensor",
]

#: A tensor of the back end: a JAX array or tracer, a torch tensor, a TensorFlow tensor, or a numpy array under JAX.
#: The classes have no common base.
Array = Any
#: A size or an index: an int, or a scalar tensor of the back end.
Scalar = Any
#: A Python or numpy number.
Number = Any
#: A dtype of the back end.
DTypeOfBackEnd = Any
#: A device of the back end: a `jax.Device` or a `torch.device`.
BackEndDevice = Any
#: A `keras.KerasTensor`: a tensor of a functional model, without a value.
SymbolicTensor = Any
#: A handle of a functional model: a `Known`, a `Counted`, a `Length` or a symbolic tensor.
Handle = Any
#: A `keras.Model`.
KerasModel = Any
#: `keras.ops`, or an object with the same functions.
KerasOps = Any

Handles = Sequence[Handle]
Ints = Sequence[int]
#: The padding before and after each spatial axis.
Pads = Sequence[Tuple[int, int]]
#: The attributes of an ONNX operator by name.
Attributes = Mapping[str, Any]
#: The branches of a Cond, or the test and body of a loop, as functions of tensors.
Bodies = Sequence[Callable[..., Sequence[Array]]]

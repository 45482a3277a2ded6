"""Type aliases for TensorFlow objects. TensorFlow ships no type annotations that are valid for both TensorFlow 1 and 2.

To a type checker each alias is `Any`; its name tells a reader the kind of the object.
"""

from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple, Union

__all__ = [
    "Attributes",
    "Bodies",
    "Key",
    "RawOps",
    "Sides",
    "Size",
    "TensorFlow",
    "TfDType",
    "TfFunction",
    "TfGraph",
    "TfGraphDef",
    "TfModule",
    "TfSession",
    "TfSessionConfig",
    "TfShape",
    "TfTensor",
    "TfTensorArray",
    "TfVariable",
]

#: The imported module `tensorflow`, of any release.
TensorFlow = Any
#: `tensorflow.raw_ops`: one function for each operation, which takes keyword arguments only.
RawOps = Any
#: A symbolic tensor of a graph, or an eager tensor. The two classes share no public base in TensorFlow 1.
TfTensor = Any
#: A `tf.DType`.
TfDType = Any
#: A `tf.TensorShape`, or a list of sizes with None for a size that is unknown.
TfShape = Any
#: A `tf.TensorArray`.
TfTensorArray = Any
#: A `tf.Variable`; its class differs between releases.
TfVariable = Any
#: A concrete function or a signature of a SavedModel: a callable over tensors.
TfFunction = Any
#: A `tf.Module`, or the object that `tf.saved_model.load` returns.
TfModule = Any
#: A `tf.Graph`.
TfGraph = Any
#: A `GraphDef` protocol buffer; protobuf generates its class at run time.
TfGraphDef = Any
#: A `tf.compat.v1.Session`.
TfSession = Any
#: A `tf.compat.v1.ConfigProto`; protobuf generates its class at run time.
TfSessionConfig = Any

#: A size: an int where it is known, else a scalar tensor.
Size = Union[int, TfTensor]
#: The attributes of an ONNX operator by name.
Attributes = Mapping[str, Any]
#: The branches of a Cond, or the test and body of a loop, as functions of tensors.
Bodies = Sequence[Callable[..., Sequence[TfTensor]]]
#: The key of a cached answer or constant.
Key = Tuple[Union[str, int], ...]
#: The inputs and the outputs of a loaded file, each a tensor by its key.
Sides = List[Dict[str, TfTensor]]

"""Write a model, or a part of it, as an onnx.ModelProto, for onnxruntime and for files.

The written model has its functions inlined, its tensors as raw_data, and the IR version that its opsets and types need.
"""

from typing import Any, Dict, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.errors import ConversionError, InvalidModelError, UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.attributes import KINDS, Empty
from onnx_compat.model.graph import Graph, GraphNode, Model, ValueInfo
from onnx_compat.model.initializer import Constant
from onnx_compat.model.storage import encode_elements
from onnx_compat.model.types import (
    Dim,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)
from onnx_compat.model.versions import ir_for

__all__ = ["extract", "node_proto", "tensor_proto", "to_proto"]

#: The field of a single value -> the field of a list.
_LISTS = {"f": "floats", "i": "ints", "s": "strings", "t": "tensors", "g": "graphs", "tp": "type_protos"}
_NUMBERS = {field: number for number, field in KINDS.items()}

#: The value of an attribute: see `onnx_compat.model.attributes`. Its type depends on the attribute.
AttributeValue = Any
#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any


def to_proto(model: Model) -> Any:
    """Return the whole model as an onnx.ModelProto, with its functions inlined. Raises as `extract` does."""
    return extract(model, model.graph.nodes, model.graph.inputs, model.graph.outputs)


def extract(model: Model, nodes: Sequence[GraphNode], inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo]) -> Any:
    """Return an onnx.ModelProto that holds `nodes`, and the initializers of `model` that the part needs.

    - nodes: the nodes to write, already in topological order.
    - inputs, outputs: the ports of the written graph.

    The part needs an initializer that a node reads, or that is an output. An initializer with the name of an entry of
    `inputs` is left out, unless the graph of `model` declares that input too. Then it stays, as the input's default.

    - Raises InvalidModelError if a needed value is no input, no initializer and no output of a node.
    - Raises InvalidModelError also if an initializer was released or is damaged.
    - Raises UnsupportedError for two versions of a domain, a version that no release has, and a call of an overload.
    - Raises ConversionError for an attribute that onnx cannot hold.
    """
    import onnx

    fed = {port.name for port in inputs} - {port.name for port in model.graph.inputs}
    part = Graph(model.graph.name or "graph", inputs, outputs, nodes)
    used = set(part.free_names()).union(port.name for port in inputs) - fed
    stored = {name: initializer for name, initializer in model.graph.initializers.items() if name in used}
    missing = [name for name in part.free_names() if name not in stored]
    if missing:
        raise InvalidModelError("the part of the model needs '%s', which is no input of it" % "', '".join(missing))
    part = Graph(part.name, inputs, outputs, nodes, stored)
    writer = _Writer()
    proto = onnx.ModelProto(producer_name="onnx-compat", graph=writer.graph(part))
    versions = _opsets(part, model.opsets)
    proto.ir_version = ir_for(versions, writer.dtypes)
    for domain, version in versions.items():
        proto.opset_import.add(domain=domain, version=version)
    return proto


def node_proto(node: GraphNode) -> Proto:
    """Return a node as an onnx.NodeProto. Raises UnsupportedError and ConversionError as `extract` does."""
    return _Writer().node(node)


def _opsets(graph: Graph, imported: Dict[str, int]) -> Dict[str, int]:
    """Return domain -> opset of the nodes of a graph. Without nodes: the entry of ai.onnx in `imported`, if any.

    Raises UnsupportedError if two nodes have different opsets of one domain.
    """
    versions: Dict[str, int] = {}
    for node in graph.walk():
        if versions.setdefault(node.domain, node.opset) != node.opset:
            raise UnsupportedError(
                "one model cannot hold nodes of versions %d and %d of domain '%s'"
                % (versions[node.domain], node.opset, node.domain or "ai.onnx"),
                hint="write the nodes of each version as a part of their own",
                **node.where,
            )
    if not versions and "" in imported:
        versions[""] = imported[""]
    return versions


class _Writer:
    """Write objects of `onnx_compat.model` as onnx messages. `dtypes` collects the element types that are written."""

    def __init__(self) -> None:
        self.dtypes: Set[DType] = set()

    def graph(self, graph: Graph) -> Any:
        import onnx

        return onnx.GraphProto(
            name=graph.name or "graph",
            node=[self.node(node) for node in graph.nodes],
            initializer=[
                self.tensor(initializer.array(), initializer.dtype, name)
                for name, initializer in graph.initializers.items()
            ],
            input=[self.value(port.name, port.type) for port in graph.inputs],
            output=[self.value(port.name, port.type) for port in graph.outputs],
            value_info=[self.value(name, kind) for name, kind in graph.value_info.items()],
        )

    def node(self, node: GraphNode) -> Any:
        import onnx

        if node.overload:
            raise UnsupportedError("a call of overload '%s' is not written" % node.overload, **node.where)
        return onnx.NodeProto(
            op_type=node.operator,
            domain=node.domain,
            name=node.name,
            input=node.inputs,
            output=node.outputs,
            attribute=[self.attribute(name, value, node) for name, value in node.attributes.items()],
        )

    def attribute(self, name: str, value: AttributeValue, node: GraphNode) -> Any:
        """Return an attribute of `node` as an AttributeProto. In a list of ints and floats, all become floats.

        Raises ConversionError for a value of an unknown type, an empty list that is no `Empty`, and a mixed list.
        """
        import onnx

        make: Any = onnx.AttributeProto
        if isinstance(value, Empty):
            return make(name=name, type=value.kind)
        many = type(value) in (tuple, list)
        items = [self.item(item) for item in value] if many else [self.item(value)]
        fields = {field for field, _ in items}
        if fields == {"f", "i"}:  # ints and floats in a list: all become floats
            items, fields = [("f", float(item)) for _, item in items], {"f"}
        if len(fields) != 1 or None in fields:
            raise ConversionError("attribute '%s' cannot be written: %r" % (name, value), **node.where)
        field = _LISTS[items[0][0]] if many else items[0][0]
        content = [item for _, item in items] if many else items[0][1]
        return make(name=name, type=_NUMBERS[field], **{field: content})

    def item(self, value: AttributeValue) -> Tuple[Any, Any]:
        """Return (field of AttributeProto, content) for a single attribute value; (None, value) for an unknown type.

        A bool becomes an int, and a str its UTF-8 bytes.
        """
        if isinstance(value, (bool, int, np.integer)):
            return "i", int(value)
        if isinstance(value, (float, np.floating)):
            return "f", float(value)
        if isinstance(value, (str, bytes)):
            return "s", value.encode("utf-8") if isinstance(value, str) else value
        if isinstance(value, Constant):
            return "t", self.tensor(value.array, value.dtype, value.name)
        if isinstance(value, Graph):
            return "g", self.graph(value)
        if isinstance(value, (TensorType, SparseTensorType, SequenceType, OptionalType, MapType, OpaqueType)):
            return "tp", self.type(value)
        return None, value

    def tensor(self, array: np.ndarray, dtype: DType, name: str) -> Any:
        self.dtypes.add(dtype)
        return tensor_proto(array, dtype, name)

    def value(self, name: str, kind: Optional[Type]) -> Any:
        import onnx

        return onnx.ValueInfoProto(name=name, type=None if kind is None else self.type(kind))

    def type(self, kind: Type) -> Any:
        import onnx

        proto = onnx.TypeProto()
        if isinstance(kind, (TensorType, SparseTensorType)):
            inner = proto.tensor_type if isinstance(kind, TensorType) else proto.sparse_tensor_type
            inner.elem_type = self.number(kind.dtype)
            if kind.shape is not None:
                inner.shape.CopyFrom(onnx.TensorShapeProto(dim=[_dim(size) for size in kind.shape]))
        elif isinstance(kind, MapType):
            proto.map_type.key_type = self.number(kind.key)
            _put(proto.map_type.value_type, kind.value, self)
        elif isinstance(kind, OpaqueType):
            proto.opaque_type.domain, proto.opaque_type.name = kind.domain, kind.name
        elif isinstance(kind, SequenceType):
            proto.sequence_type.SetInParent()
            _put(proto.sequence_type.elem_type, kind.element, self)
        else:
            proto.optional_type.SetInParent()
            _put(proto.optional_type.elem_type, kind.element, self)
        return proto

    def number(self, dtype: Optional[DType]) -> int:
        """Return the number of a dtype in ONNX, and add the dtype to `dtypes`. None gives 0."""
        if dtype is None:
            return 0
        self.dtypes.add(dtype)
        return dtype.onnx


def tensor_proto(array: np.ndarray, dtype: DType, name: str) -> Any:
    """Return a carrier array as an onnx.TensorProto with its data inside."""
    import onnx

    tensor = onnx.TensorProto(name=name, data_type=dtype.onnx, dims=np.shape(array))
    if dtype is dtypes.string:
        tensor.string_data.extend(text.encode("utf-8", "surrogateescape") for text in np.ravel(array).tolist())
    else:
        tensor.raw_data = encode_elements(array, dtype)
    return tensor


def _put(proto: Proto, kind: Optional[Type], writer: _Writer) -> None:
    if kind is not None:
        proto.CopyFrom(writer.type(kind))


def _dim(size: Dim) -> Dict[str, Any]:
    if size is None:
        return {}
    return {"dim_param": size} if isinstance(size, str) else {"dim_value": int(size)}

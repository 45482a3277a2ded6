"""From messages to the graph that the library works on, as the file has it: nothing inlined, nothing sorted."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError, OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.attributes import attributes
from onnx_compat.model.external import Folder
from onnx_compat.model.graph import Graph, GraphNode, ValueInfo
from onnx_compat.model.initializer import Initializer
from onnx_compat.model.tensors import read_dense, read_sparse
from onnx_compat.model.types import MapType, OpaqueType, OptionalType, SequenceType, SparseTensorType, TensorType, Type
from onnx_compat.model.versions import normalise
from onnx_compat.model.wire import Message

__all__ = ["Function", "Key", "Reader", "opsets"]

#: What a call names a function by: domain, operator, overload.
Key = Tuple[str, str, str]


class Function(NamedTuple):
    """A model's own operator. `attributes` are the names of those without a default; `graph` is its body."""

    key: Key
    attributes: Tuple[str, ...]
    defaults: Dict[str, Any]
    opsets: Dict[str, int]
    graph: Graph


class Reader:
    """Reads messages; holds what all of them need: the folder of external data."""

    def __init__(self, folder: Optional[Folder]) -> None:
        self.folder = folder

    def tensor(self, record: Message, name: str = "") -> Initializer:
        return read_dense(record, self.folder, name)

    def sparse(self, record: Message, name: str = "") -> Initializer:
        return read_sparse(record, self.folder, name)

    def graph(self, record: Message) -> Graph:
        initializers: Dict[str, Initializer] = {}
        stored = [self.tensor(one) for one in record.initializer]
        for one in stored + [self.sparse(one) for one in record.sparse_initializer]:
            if not one.name or one.name in initializers:
                what = "two initializers are both named '%s'" % one.name if one.name else "an initializer has no name"
                raise InvalidModelError(what, hint="export the model again")
            initializers[one.name] = one
        return Graph(
            record.name,
            [ValueInfo(one.name, self.type(one.type)) for one in record.input],
            [ValueInfo(one.name, self.type(one.type)) for one in record.output],
            [self.node(one, place) for place, one in enumerate(record.node)],
            initializers,
            {one.name: self.type(one.type) for one in record.value_info},
            record.doc_string,
        )

    def node(self, record: Message, place: int) -> GraphNode:
        name = record.name or "%s_%d" % (record.op_type, place)
        if not record.op_type:
            raise InvalidModelError("a node has no operator", node=name, hint="export the model again")
        domain = normalise(record.domain)
        try:
            values = attributes(record.attribute, self, name)
        except OnnxCompatError as error:
            raise error.at(node=name, operator=record.op_type) from None
        return GraphNode(record.op_type, record.input, record.output, values, domain, -1, name, record.overload)

    def function(self, record: Message) -> Function:
        key = (normalise(record.domain), record.name, record.overload)
        inputs = [ValueInfo(name, None) for name in record.input]
        outputs = [ValueInfo(name, None) for name in record.output]
        nodes = [self.node(one, place) for place, one in enumerate(record.node)]
        return Function(
            key,
            tuple(record.attribute),
            attributes(record.attribute_proto, self, "function %s" % record.name),
            opsets(record.opset_import),
            Graph(record.name, inputs, outputs, nodes),
        )

    def type(self, record: Optional[Message]) -> Optional[Type]:
        """The declared type, or None where nothing is said."""
        if record is None:
            return None
        if record.sequence_type is not None:
            return SequenceType(self.type(record.sequence_type.elem_type))
        if record.optional_type is not None:
            return OptionalType(self.type(record.optional_type.elem_type))
        if record.map_type is not None:
            return MapType(DType.of(record.map_type.key_type), self.type(record.map_type.value_type))
        if record.opaque_type is not None:
            return OpaqueType(record.opaque_type.domain, record.opaque_type.name)
        if record.sparse_tensor_type is not None:
            return SparseTensorType(*_tensor(record.sparse_tensor_type))
        return TensorType(*_tensor(record.tensor_type)) if record.tensor_type is not None else None


def _tensor(record: Message) -> Tuple[Optional[DType], Optional[Tuple[Any, ...]]]:
    dtype = DType.of(record.elem_type) if record.elem_type else None
    if record.shape is None:
        return dtype, None
    sizes: List[Any] = []
    for dim in record.shape.dim:
        size = vars(dim).get("dim_value")
        # a negative size, or one called `?`, is what some exporters write for an unknown one: two such need not be equal
        told = None if dim.dim_param in ("", "?") else dim.dim_param
        sizes.append(size if size is not None and size >= 0 else told)
    return dtype, tuple(sizes)


def opsets(records: Sequence[Message]) -> Dict[str, int]:
    """domain -> version; a domain may be imported twice only with the same version."""
    found: Dict[str, int] = {}
    for one in records:
        domain = normalise(one.domain)
        if found.setdefault(domain, one.version) != one.version:
            raise InvalidModelError(
                "the model imports versions %d and %d of domain '%s'"
                % (found[domain], one.version, domain or "ai.onnx"),
                hint="export the model again with one version",
            )
    return found

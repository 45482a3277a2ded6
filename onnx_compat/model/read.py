"""Convert decoded protobuf messages to graphs. Functions are not inlined yet, and nodes are not sorted."""

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

#: The identity of a function: domain, operator, overload.
Key = Tuple[str, str, str]


class Function(NamedTuple):
    """A function that a model defines.

    - key: the function's (domain, name, overload).
    - attributes: the names of its attributes without a default.
    - defaults: attribute name -> default value.
    - opsets: domain -> version, as the function imports them.
    - graph: the body.
    """

    key: Key
    attributes: Tuple[str, ...]
    defaults: Dict[str, Any]
    opsets: Dict[str, int]
    graph: Graph


class Reader:
    """Convert the decoded messages of one model to objects of `onnx_compat.model`.

    `folder`: the folder of the model's external data, or None.

    A node gets the opset -1, and a node without a name the name "<operator>_<index>".
    """

    def __init__(self, folder: Optional[Folder]) -> None:
        self.folder = folder
        #: The bytes of the sparse tensors so far, after they are made dense.
        self.sparse_bytes = 0

    def tensor(self, record: Message, name: str = "") -> Initializer:
        return read_dense(record, self.folder, name)

    def sparse(self, record: Message, name: str = "") -> Initializer:
        initializer = read_sparse(record, self.folder, name, self.sparse_bytes)
        self.sparse_bytes += initializer.nbytes
        return initializer

    def graph(self, record: Message) -> Graph:
        initializers: Dict[str, Initializer] = {}
        stored = [self.tensor(tensor) for tensor in record.initializer]
        for initializer in stored + [self.sparse(initializer) for initializer in record.sparse_initializer]:
            if not initializer.name or initializer.name in initializers:
                problem = (
                    "two initializers are both named '%s'" % initializer.name
                    if initializer.name
                    else "an initializer has no name"
                )
                raise InvalidModelError(problem, hint="export the model again")
            initializers[initializer.name] = initializer
        return Graph(
            record.name,
            [ValueInfo(port.name, self.type(port.type)) for port in record.input],
            [ValueInfo(port.name, self.type(port.type)) for port in record.output],
            [self.node(node, index) for index, node in enumerate(record.node)],
            initializers,
            {port.name: self.type(port.type) for port in record.value_info},
            record.doc_string,
        )

    def node(self, record: Message, index: int) -> GraphNode:
        name = record.name or "%s_%d" % (record.op_type, index)
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
        nodes = [self.node(node, index) for index, node in enumerate(record.node)]
        return Function(
            key,
            tuple(record.attribute),
            attributes(record.attribute_proto, self, "function %s" % record.name),
            opsets(record.opset_import),
            Graph(record.name, inputs, outputs, nodes),
        )

    def type(self, record: Optional[Message]) -> Optional[Type]:
        """Return a declared type as an object; None if the message is absent or declares no type.

        Raises UnsupportedError for an element type that this library does not know.
        """
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
            return SparseTensorType(*_tensor_type(record.sparse_tensor_type))
        return TensorType(*_tensor_type(record.tensor_type)) if record.tensor_type is not None else None


def _tensor_type(record: Message) -> Tuple[Optional[DType], Optional[Tuple[Any, ...]]]:
    """Return (dtype, shape) of a tensor type, with None for an undeclared dtype, shape or size.

    A symbolic size is a str. A negative size and the symbol "?" count as undeclared. Raises UnsupportedError for an
    unknown dtype.
    """
    dtype = DType.of(record.elem_type) if record.elem_type else None
    if record.shape is None:
        return dtype, None
    sizes: List[Any] = []
    for dim in record.shape.dim:
        size = vars(dim).get("dim_value")
        # some exporters write a negative size, or the symbol `?`, for an unknown size: two of these may differ
        symbol = None if dim.dim_param in ("", "?") else dim.dim_param
        sizes.append(size if size is not None and size >= 0 else symbol)
    return dtype, tuple(sizes)


def opsets(records: Sequence[Message]) -> Dict[str, int]:
    """Return domain -> version, with "" for ai.onnx. Raises InvalidModelError if a domain has two versions."""
    versions: Dict[str, int] = {}
    for record in records:
        domain = normalise(record.domain)
        if versions.setdefault(domain, record.version) != record.version:
            raise InvalidModelError(
                "the model imports versions %d and %d of domain '%s'"
                % (versions[domain], record.version, domain or "ai.onnx"),
                hint="export the model again with one version",
            )
    return versions

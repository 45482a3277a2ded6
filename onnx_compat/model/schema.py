"""The protobuf messages of an ONNX file (IR version 14): the numbers, names and kinds of their fields, for `wire`.

Every field is listed, so that a field of a later IR version is recognised as unknown. A field that is not read has the
kind "skip".
"""

from typing import Any, Dict, Tuple, Type

from onnx_compat.model.wire import Field, Message

__all__ = ["MODEL", "TENSOR", "link_messages", "message"]

_SINGLE: Dict[str, Any] = {"int": 0, "float": 0.0, "text": "", "bytes": b""}
_NUMBERS = ("ints", "floats", "doubles")


def message(_title: str, **fields: Tuple[int, str]) -> Type[Message]:
    """Return a new message class named `_title`. Each field is given as name=(number, kind): see `wire.Field`.

    A kind that ends with "*" is a list; ints, floats and doubles are always lists. The value of an absent field is an
    attribute of the class, which takes no memory in a message:

    - a list: ()
    - int, float, text, bytes: 0, 0.0, "" or b""
    - a message, payload or skip: None
    """
    body: Dict[str, Any] = {"FIELDS": {}}
    for field, (number, spelled) in fields.items():
        kind = spelled.rstrip("*")
        many = kind != spelled or kind in _NUMBERS
        body["FIELDS"][number] = Field(field, kind, many)
        body[field] = () if many else _SINGLE.get(kind)
    return type(_title, (Message,), body)


def link_messages(*messages: Type[Message]) -> Dict[str, Type[Message]]:
    """Set `Field.message` of each field of the message classes, and return name -> message class.

    `Field.message` is the class in `messages` whose name is the field's kind; None without such a class.
    """
    by_name = {message_type.__name__: message_type for message_type in messages}
    for message_type in messages:
        for field in message_type.FIELDS.values():
            field.message = by_name.get(field.kind)
    return by_name


_MESSAGES = link_messages(
    message("Entry", key=(1, "text"), value=(2, "text")),
    message("OperatorSet", domain=(1, "text"), version=(2, "int")),
    message("Segment", begin=(1, "int"), end=(2, "int")),
    message(
        "Tensor",
        dims=(1, "ints"),
        data_type=(2, "int"),
        segment=(3, "Segment"),
        float_data=(4, "floats"),
        int32_data=(5, "ints"),
        string_data=(6, "bytes*"),
        int64_data=(7, "ints"),
        name=(8, "text"),
        raw_data=(9, "payload"),
        double_data=(10, "doubles"),
        uint64_data=(11, "ints"),
        doc_string=(12, "skip"),
        external_data=(13, "Entry*"),
        data_location=(14, "int"),
        metadata_props=(16, "skip"),
    ),
    message("SparseTensor", values=(1, "Tensor"), indices=(2, "Tensor"), dims=(3, "ints")),
    message("Dimension", dim_value=(1, "int"), dim_param=(2, "text"), denotation=(3, "skip")),
    message("Shape", dim=(1, "Dimension*")),
    message("TensorKind", elem_type=(1, "int"), shape=(2, "Shape")),
    message("SparseTensorKind", elem_type=(1, "int"), shape=(2, "Shape")),
    message("SequenceKind", elem_type=(1, "Type")),
    message("OptionalKind", elem_type=(1, "Type")),
    message("MapKind", key_type=(1, "int"), value_type=(2, "Type")),
    message("OpaqueKind", domain=(1, "text"), name=(2, "text")),
    message(
        "Type",
        tensor_type=(1, "TensorKind"),
        sequence_type=(4, "SequenceKind"),
        map_type=(5, "MapKind"),
        denotation=(6, "skip"),
        opaque_type=(7, "OpaqueKind"),
        sparse_tensor_type=(8, "SparseTensorKind"),
        optional_type=(9, "OptionalKind"),
    ),
    message("Value", name=(1, "text"), type=(2, "Type"), doc_string=(3, "skip"), metadata_props=(4, "skip")),
    message(
        "Attribute",
        name=(1, "text"),
        f=(2, "float"),
        i=(3, "int"),
        s=(4, "bytes"),
        t=(5, "Tensor"),
        g=(6, "Graph"),
        floats=(7, "floats"),
        ints=(8, "ints"),
        strings=(9, "bytes*"),
        tensors=(10, "Tensor*"),
        graphs=(11, "Graph*"),
        doc_string=(13, "skip"),
        tp=(14, "Type"),
        type_protos=(15, "Type*"),
        type=(20, "int"),
        ref_attr_name=(21, "text"),
        sparse_tensor=(22, "SparseTensor"),
        sparse_tensors=(23, "SparseTensor*"),
    ),
    message(
        "Node",
        input=(1, "text*"),
        output=(2, "text*"),
        name=(3, "text"),
        op_type=(4, "text"),
        attribute=(5, "Attribute*"),
        doc_string=(6, "skip"),
        domain=(7, "text"),
        overload=(8, "text"),
        metadata_props=(9, "skip"),
        device_configurations=(10, "skip"),
    ),
    message(
        "Graph",
        node=(1, "Node*"),
        name=(2, "text"),
        initializer=(5, "Tensor*"),
        doc_string=(10, "text"),
        input=(11, "Value*"),
        output=(12, "Value*"),
        value_info=(13, "Value*"),
        quantization_annotation=(14, "skip"),
        sparse_initializer=(15, "SparseTensor*"),
        metadata_props=(16, "skip"),
    ),
    message(
        "Function",
        name=(1, "text"),
        since_version=(2, "skip"),
        status=(3, "skip"),
        input=(4, "text*"),
        output=(5, "text*"),
        attribute=(6, "text*"),
        node=(7, "Node*"),
        doc_string=(8, "skip"),
        opset_import=(9, "OperatorSet*"),
        domain=(10, "text"),
        attribute_proto=(11, "Attribute*"),
        value_info=(12, "skip"),
        overload=(13, "text"),
        metadata_props=(14, "skip"),
    ),
    message(
        "Model",
        ir_version=(1, "int"),
        producer_name=(2, "text"),
        producer_version=(3, "text"),
        domain=(4, "skip"),
        model_version=(5, "skip"),
        doc_string=(6, "skip"),
        graph=(7, "Graph"),
        opset_import=(8, "OperatorSet*"),
        metadata_props=(14, "Entry*"),
        training_info=(20, "skip"),
        functions=(25, "Function*"),
        configuration=(26, "skip"),
    ),
)

MODEL = _MESSAGES["Model"]
TENSOR = _MESSAGES["Tensor"]

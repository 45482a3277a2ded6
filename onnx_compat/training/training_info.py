"""Read and validate the training information of a model: TrainingInfoProto, as onnx.proto defines it.

A state is an initializer that an `update_binding` or an `initialization_binding` assigns to. It belongs to the main graph
or to the algorithm of an entry.
"""

import difflib
import json
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import load
from onnx_compat.model.loading import ModelSource

if TYPE_CHECKING:
    import onnx

__all__ = ["METADATA", "TrainingEntry", "TrainingInfo", "proto_of", "read_training_info"]

#: The key of the metadata in which `make_trainable` stores a JSON object with these keys:
#: results: the outputs of the algorithm that a step returns, the loss first.
#: evaluation: result -> the output of the algorithm that computes the result in inference mode.
#: statistics: the states that follow the data, such as a running mean, and that no gradient changes.
METADATA = "onnx_compat.training"


class TrainingEntry(NamedTuple):
    """An entry of `training_info`. `initial` and `updates` are its bindings: state -> name of an output."""

    initialization: "onnx.GraphProto"
    algorithm: "onnx.GraphProto"
    initial: Dict[str, str]
    updates: Dict[str, str]


class TrainingInfo(NamedTuple):
    """The training information of a model, validated.

    - model: the ModelProto. It must not be changed.
    - entries: the entries of `training_info`. A step executes them in this order.
    - states: name -> stored tensor, of each state.
    - metadata: what `make_trainable` stored under `METADATA`; {} for other models.
    """

    model: "onnx.ModelProto"
    entries: Tuple[TrainingEntry, ...]
    states: "Dict[str, onnx.TensorProto]"
    metadata: Dict[str, Any]

    @property
    def loss(self) -> Optional[str]:
        """The name of the result that is the loss: the first result. None for a model without results."""
        return next(iter(self.results), None)

    @property
    def results(self) -> List[str]:
        """The outputs that a step returns: of each algorithm, those that no binding assigns to a state.

        `make_trainable` names the results in the metadata. Of two entries with one name, the first counts.
        """
        if "results" in self.metadata:
            return list(self.metadata["results"])
        unbound = [
            port.name
            for entry in self.entries
            for port in entry.algorithm.output
            if port.name not in entry.updates.values()
        ]
        return list(dict.fromkeys(unbound))


def proto_of(source: ModelSource) -> "onnx.ModelProto":
    """Return a model, checked by `load`, as an onnx.ModelProto with its external data inside.

    A ModelProto is returned itself. Raises as `load` does.
    """
    from onnx_compat.model import to_proto

    loaded = load(source)
    proto: onnx.ModelProto = to_proto(loaded) if loaded.source is None else loaded.proto
    if loaded.source is None or loaded.data_folder is None or isinstance(loaded.source, str):
        return proto
    from onnx.external_data_helper import load_external_data_for_model

    copy: onnx.ModelProto = type(proto)()
    copy.CopyFrom(proto)
    load_external_data_for_model(copy, loaded.data_folder)
    return copy


def read_training_info(source: ModelSource) -> TrainingInfo:
    """Return the training information of a model.

    Raises InvalidModelError in these cases, with the entry and the name:

    - The model has no training information, or the initialization of an entry has inputs.
    - A binding assigns to a name that is no initializer of the main graph or of the entry's algorithm.
    - A binding names no output of its graph, or a state is bound twice.
    - A bound output is declared with another element type or shape than its state.
    - Two graphs have an initializer of one name.
    """
    proto = proto_of(source)
    if not proto.training_info:
        raise InvalidModelError(
            "the model has no training_info", hint="onnx_compat.training.make_trainable(model, loss, optimizer) adds it"
        )
    _check_initializers(proto)
    states: Dict[str, onnx.TensorProto] = {}
    entries: List[TrainingEntry] = []
    for number in range(len(proto.training_info)):
        entries.append(_read_entry(proto, number, states, [state for entry in entries for state in entry.updates]))
    return TrainingInfo(proto, tuple(entries), states, _metadata(proto))


def _metadata(proto: "onnx.ModelProto") -> Dict[str, Any]:
    """Return the JSON object under `METADATA`; {} without one. Raises InvalidModelError for a damaged text."""
    text = next((entry.value for entry in proto.metadata_props if entry.key == METADATA), "{}")
    outputs = {port.name for info in proto.training_info for port in info.algorithm.output}
    try:
        metadata = dict(json.loads(text))
        names = [*metadata.get("results", []), *dict(metadata.get("evaluation", {})).values()]
    except (ValueError, TypeError) as error:
        raise InvalidModelError("the metadata '%s' is no JSON object: %s" % (METADATA, error)) from error
    for name in names:
        if name not in outputs:
            raise InvalidModelError(
                "the metadata '%s' names '%s', which is no output of an algorithm" % (METADATA, name)
            )
    return metadata


def _check_initializers(proto: "onnx.ModelProto") -> None:
    """Raise InvalidModelError if an algorithm has an initializer with the name of another one."""
    seen = {tensor.name: "the main graph" for tensor in proto.graph.initializer}
    for number, info in enumerate(proto.training_info):
        owner = "the algorithm of training_info[%d]" % number
        for tensor in info.algorithm.initializer:
            if tensor.name in seen:
                raise InvalidModelError(
                    "%s and %s have an initializer '%s'" % (seen[tensor.name], owner, tensor.name),
                    hint="each state has a name of its own; rename one of the two",
                )
            seen[tensor.name] = owner


def _read_entry(
    proto: "onnx.ModelProto", number: int, states: "Dict[str, onnx.TensorProto]", bound: Sequence[str]
) -> TrainingEntry:
    """Return entry `number` of the training information, and add its states to `states`.

    `bound`: the states that the update bindings of earlier entries assign to. Raises InvalidModelError for
    a binding that `read_training_info` refuses.
    """
    info = proto.training_info[number]
    where = "training_info[%d]" % number
    if len(info.initialization.input):
        raise InvalidModelError(
            "the initialization of %s has the input '%s'" % (where, info.initialization.input[0].name),
            hint="an initialization takes no inputs; make it an initializer of this graph",
        )
    tensors = {tensor.name: tensor for tensor in [*proto.graph.initializer, *info.algorithm.initializer]}
    both: List[Dict[str, str]] = []
    for field, graphs in (
        ("initialization_binding", [info.initialization]),
        ("update_binding", [info.algorithm, proto.graph]),
    ):
        outputs = {port.name: port for graph in reversed(graphs) for port in graph.output}
        bindings: Dict[str, str] = {}
        for binding in getattr(info, field):
            path = "%s.%s" % (where, field)
            _check_binding(binding.key, binding.value, path, tensors, outputs)
            if binding.key in bindings or (field == "update_binding" and binding.key in bound):
                raise InvalidModelError(
                    "%s assigns to '%s', which is bound already" % (path, binding.key),
                    hint="a state is assigned once in a step; remove one of the bindings",
                )
            bindings[binding.key] = binding.value
            states[binding.key] = tensors[binding.key]
        both.append(bindings)
    return TrainingEntry(info.initialization, info.algorithm, both[0], both[1])


def _check_binding(
    state: str,
    output: str,
    path: str,
    tensors: "Dict[str, onnx.TensorProto]",
    outputs: "Dict[str, onnx.ValueInfoProto]",
) -> None:
    """Raise InvalidModelError for a binding whose names do not exist, or whose declared types differ.

    - state, output: the key and the value of the binding. path: where the binding is, for the error.
    - tensors: name -> initializer that may be assigned to. outputs: name -> output that may be assigned.
    """
    if state not in tensors:
        raise InvalidModelError(
            "%s assigns to '%s', which is no initializer of the main graph or of this algorithm" % (path, state),
            hint=_hint(state, tensors),
        )
    if output not in outputs:
        raise InvalidModelError(
            "%s assigns '%s' to '%s', and no graph has this output" % (path, output, state),
            hint=_hint(output, outputs),
        )
    declared, tensor = outputs[output].type.tensor_type, tensors[state]
    dtype = declared.elem_type
    sizes = [size.dim_value if size.HasField("dim_value") else None for size in declared.shape.dim]
    has_shape = declared.HasField("shape")
    is_same_shape = len(sizes) == len(tensor.dims) and all(
        size is None or size == kept for size, kept in zip(sizes, tensor.dims)
    )
    if (dtype and dtype != tensor.data_type) or (has_shape and not is_same_shape):
        kinds = _type_text(dtype, sizes if has_shape else None), _type_text(tensor.data_type, tensor.dims)
        raise InvalidModelError(
            "%s assigns '%s' of type %s to '%s' of type %s" % (path, output, kinds[0], state, kinds[1]),
            hint="both must have one element type and one shape",
        )


def _type_text(dtype: int, sizes: Optional[Sequence[Any]]) -> str:
    name = DType.of(dtype).name if dtype else "?"
    shape = "[…]" if sizes is None else "[%s]" % ", ".join("?" if size is None else str(size) for size in sizes)
    return name + shape


def _hint(name: str, names: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest name, or the first names that exist."""
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return "did you mean '%s'?" % close[0]
    existing = list(names)
    return "it has %s" % (", ".join("'%s'" % known for known in existing[:8]) or "none")

"""Convert a model to an ONNX file: at another opset and IR version, with its weights inside or beside it."""

import importlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.destinations import Destination, absolute_path, files_of
from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.conversion.onnx_options import OnnxOptions
from onnx_compat.errors import ConversionError, MissingDependencyError
from onnx_compat.model import Model, TensorType, load
from onnx_compat.model.loading import ModelSource, StrPath
from onnx_compat.retarget.checking import check_form, compare_with_source
from onnx_compat.retarget.external_weights import choose_data_file, has_external_data, move_weights
from onnx_compat.retarget.outcomes import RetargetPlan
from onnx_compat.retarget.protos import tensor_of
from onnx_compat.retarget.retargeting import refusal_error, retarget_in_place
from onnx_compat.retarget.weightless_model import WeightlessModel, read_weightless_model

if TYPE_CHECKING:
    import onnx

__all__ = ["plan", "retarget", "write_onnx"]


@typed_errors
def retarget(
    model: ModelSource, opset: Optional[int] = None, ir_version: Optional[int] = None, inline_functions: bool = False
) -> "onnx.ModelProto":
    """Return a model at another opset and IR version, as an onnx.ModelProto. The model itself does not change.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        opset: The version of ai.onnx; None: that of the model.
        ir_version: The version of the file format; None: it follows from the opset.
        inline_functions: Whether the functions of the model are inlined.

    Raises:
        InvalidModelError: The model is not valid.
        UnsupportedError: A node or an element type cannot be written; the error names each such node.
        ConversionError: The opset or IR version does not exist or cannot be written.
    """
    weightless_model = _read_checked(model)
    result = _apply(weightless_model, OnnxOptions(opset, ir_version, inline_functions))
    if result.first_refusal is not None:
        raise refusal_error(result)
    return weightless_model.assemble()


@typed_errors
def plan(
    model: ModelSource, opset: Optional[int] = None, ir_version: Optional[int] = None, inline_functions: bool = False
) -> RetargetPlan:
    """Return what `retarget` would do with each node. It has the same arguments and errors; a refused node is no error."""
    weightless_model = _read_checked(model)
    return _apply(weightless_model, OnnxOptions(opset, ir_version, inline_functions))


def write_onnx(
    model: ModelSource,
    path: StrPath,
    options: OnnxOptions,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Tuple[str, RetargetPlan]:
    """Write a model as an ONNX file. Return the absolute path, and the plan with notes of the checks.

    - shapes, values: see `fix_inputs`.

    A conversion that fails leaves nothing behind. Raises as `onnx_compat.convert` does.
    """
    target = absolute_path(path)
    loaded = load(model)
    destination = Destination(target, files_of(loaded))
    fixed = fix_inputs(loaded, shapes, values) if shapes or values else loaded
    weightless_model = read_weightless_model(_source_of(loaded))
    name = choose_data_file(options.external_data, weightless_model.proto, loaded, target)
    data_file = None if name is None else Destination(os.path.join(os.path.dirname(target), name), files_of(loaded))
    if shapes or values:
        _fix_ports(weightless_model.proto, fixed, values or {})
    source_form = weightless_model.without_weights()
    weights = loaded
    if options.simplify:
        weightless_model, weights = _simplify(weightless_model)
    result = _apply(weightless_model, options)
    if result.first_refusal is not None:
        raise refusal_error(result)
    result.notes += check_form(weightless_model.without_weights(), source_form)
    with destination.scratch() as scratch:
        written = os.path.join(scratch, os.path.basename(target))
        written_data = os.path.join(scratch, name or "")
        if data_file is not None:
            count = move_weights(weightless_model, weights, written_data)
            result.notes.append("%d weights are in '%s'" % (count, name))
        else:
            _link_files(loaded, scratch)
        del weights
        is_read_again = isinstance(loaded.source, str) and not isinstance(model, Model)
        if is_read_again:  # memory holds the weights of one model at a time
            for initializer in loaded.graph.initializers.values():
                initializer.release()
        weightless_model.write(written)
        checked = load(written)
        if options.verify:
            source = load(loaded.source) if is_read_again else loaded
            result.notes += compare_with_source(source, checked, dict(values or {}))
        if data_file is not None:
            data_file.put(written_data)
        destination.put(written)
    return destination.path, result


def _link_files(model: Model, folder: str) -> None:
    """Give the data files that stay beside the source a name in the scratch folder, so that the result can be loaded."""
    root = os.path.dirname(os.path.realpath(model.path or ""))
    for file in model.data_files:
        name = os.path.join(folder, os.path.relpath(file, root))
        os.makedirs(os.path.dirname(name), exist_ok=True)
        try:
            os.link(file, name)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, name)


def _read_checked(model: ModelSource) -> WeightlessModel:
    """Check a model except its weights, and return it without weights. Raises as `load` does."""
    is_proto = getattr(getattr(model, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto"
    if not is_proto:
        return read_weightless_model(_source_of(load(model)))
    weightless_model = read_weightless_model(model)
    load(weightless_model.without_weights().SerializeToString())
    return weightless_model


def _source_of(model: Model) -> Any:
    """Return what a loaded model was read from. A Model that was made in memory is written as a ModelProto."""
    from onnx_compat.model.write import to_proto

    return to_proto(model) if model.source is None else model.source


def _apply(weightless_model: WeightlessModel, options: OnnxOptions) -> RetargetPlan:
    from onnx_compat.retarget.composition import compose_node

    return retarget_in_place(
        weightless_model.proto, options.opset, options.ir_version, options.inline_functions, compose_node
    )


def _fix_ports(proto: "onnx.ModelProto", fixed: Model, values: Mapping[str, Any]) -> None:
    """Write the fixed sizes and values of inputs into `proto`, in place. An input with a value becomes an initializer."""
    types = {port.name: port.type for port in fixed.graph.inputs}
    for position in reversed(range(len(proto.graph.input))):
        port = proto.graph.input[position]
        kind = types.get(port.name)
        if port.name in values:
            del proto.graph.input[position]
            _store(proto, fixed, port.name)
        elif isinstance(kind, TensorType) and kind.shape is not None:
            shape = port.type.tensor_type.shape
            while len(shape.dim) < len(kind.shape):
                shape.dim.add()
            for dim, size in zip(shape.dim, kind.shape):  # the denotations of the sizes stay
                if isinstance(size, int):
                    dim.dim_value = size
                elif size is not None:
                    dim.dim_param = size


def _store(proto: "onnx.ModelProto", fixed: Model, name: str) -> None:
    import onnx

    initializer = fixed.graph.initializers[name]
    for position in reversed(range(len(proto.graph.initializer))):
        if proto.graph.initializer[position].name == name:
            del proto.graph.initializer[position]
    array, dtype = initializer.array(), initializer.dtype
    if dtype.kind == "s":
        texts = [text.encode("utf-8", "surrogateescape") for text in array.ravel().tolist()]
        proto.graph.initializer.append(
            onnx.TensorProto(name=name, data_type=dtype.onnx, dims=array.shape, string_data=texts)
        )
        return
    proto.graph.initializer.append(tensor_of(name, array, dtype))


def _simplify(weightless_model: WeightlessModel) -> Tuple[WeightlessModel, Model]:
    """Return the simplified model without its weights, and loaded with them.

    Raises MissingDependencyError without the simplifier, and ConversionError for a model with external data.
    """
    try:
        simplify = importlib.import_module("onnx_compat.simplify").simplify
    except ImportError as error:
        raise MissingDependencyError("this installation cannot simplify models", hint="update onnx-compat") from error
    if has_external_data(weightless_model.proto):
        raise ConversionError(
            "a model with external data is not simplified",
            hint="write it without external data first, or leave simplify out",
        )
    simplified, _ = simplify(weightless_model.assemble())
    return read_weightless_model(simplified), load(simplified)

"""Convert a model to an ONNX file: at another opset and IR version, with its weights inside or beside it."""

import gc
import os
import shutil
from typing import TYPE_CHECKING, Any, List, Mapping, NamedTuple, Optional, Tuple

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.destinations import Destination, absolute_path, files_of, put_together
from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.conversion.onnx_options import OnnxOptions
from onnx_compat.errors import InvalidModelError, OnnxCompatError
from onnx_compat.model import Model, TensorType, load
from onnx_compat.model.loading import ModelSource, StrPath
from onnx_compat.model.write import tensor_proto, to_proto
from onnx_compat.retarget.checking import check_form, compare_with_source
from onnx_compat.retarget.external_weights import (
    choose_data_file,
    embed_small_tensors,
    movable_weights,
    move_weights,
    restore_external_data,
)
from onnx_compat.retarget.outcomes import REFUSED, RetargetPlan
from onnx_compat.retarget.retargeting import refusal_error, retarget_in_place
from onnx_compat.retarget.stand_ins import stored_tensors
from onnx_compat.retarget.weightless_model import WeightlessModel, read_weightless_model

if TYPE_CHECKING:
    import onnx

__all__ = ["Change", "Preparation", "change", "plan", "prepare", "retarget", "write_onnx"]


@typed_errors
def retarget(
    model: ModelSource, opset: Optional[int] = None, ir_version: Optional[int] = None, inline_functions: bool = False
) -> "onnx.ModelProto":
    """Return a model at another opset and IR version, as an onnx.ModelProto. The model itself does not change.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        opset: The version of ai.onnx; None: that of the model.
        ir_version: The version of the file format. None: it follows from the opset and the element types; without
            `opset`, it is not below that of the model.
        inline_functions: Whether all functions of the model are inlined. If False, a function is inlined only where the
            target cannot hold it.

    Raises:
        InvalidModelError: The model is not valid.
        UnsupportedError: A node or an element type cannot be written; the error names each such node.
        ConversionError: The opset or IR version does not exist or cannot be written.
    """
    changed = _change(model, OnnxOptions(opset, ir_version, inline_functions))
    if changed.plan.first_refusal is not None:
        raise refusal_error(changed.plan)
    restore_external_data(changed.result.proto)
    return changed.result.assemble()


@typed_errors
def plan(
    model: ModelSource, opset: Optional[int] = None, ir_version: Optional[int] = None, inline_functions: bool = False
) -> RetargetPlan:
    """Return the plan of a retargeting: the outcome of each node. No model is returned or written.

    The arguments are those of `retarget`. A refused node is listed in the plan and raises nothing. Raises
    InvalidModelError and ConversionError as `retarget` does.
    """
    return _change(model, OnnxOptions(opset, ir_version, inline_functions)).plan


class Preparation(NamedTuple):
    """A conversion in memory, before anything is written.

    - source: the model before the retargeting, with its inputs fixed.
    - model: the model as `load` returns it, before its inputs are fixed.
    - result: the converted model. It must not be written if `plan` has a refused node.
    - plan: the outcome of each node, and notes.
    - destination: the path of the model to write.
    - data_file: the path of the file that gets the large weights. None: they stay where they are.
    """

    source: WeightlessModel
    model: Model
    result: WeightlessModel
    plan: RetargetPlan
    destination: Destination
    data_file: Optional[Destination]


def prepare(
    model: ModelSource,
    path: StrPath,
    options: OnnxOptions,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Preparation:
    """Convert a model in memory, and check its form. Nothing is written.

    - path: the path of the file to write later.
    - shapes: input name -> sizes to fix. values: input name -> value to fix. See `fix_inputs`. None: no input is fixed.

    A refused node is in the plan of the result and raises nothing. Raises InvalidModelError for an invalid model,
    InputError for wrong shapes or values, and ConversionError for a wrong option or path. Raises it also if
    onnx.checker refuses only the converted model.
    """
    target = absolute_path(path)
    Destination(target, [model])  # refuses a path that cannot be written before any work is done
    changed = change(model, options, shapes, values)
    destination = Destination(target, files_of(changed.model))
    name = choose_data_file(options.external_data, changed.source, target)
    data_file = None
    if name is not None:
        data_file = Destination(os.path.join(os.path.dirname(target), name), files_of(changed.model))
    if changed.plan.first_refusal is None:
        moved = 0 if name is None else len(movable_weights(changed.result, name))
        changed.plan.notes += _describe_weights(changed.result, name, moved)
        data_file = data_file if moved else None
    return Preparation(*changed, destination, data_file)


@typed_errors
def write_onnx(
    model: ModelSource,
    path: StrPath,
    options: OnnxOptions,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Tuple[str, RetargetPlan]:
    """Write a model as an ONNX file. Return (absolute path, plan with notes of the checks).

    - model: a path, bytes, a ModelProto or a Model. path: the path of the file to write.
    - options: the opset, the IR version, the place of the weights, and whether the result is simplified and verified.
    - shapes: input name -> sizes to fix. values: input name -> value to fix. See `fix_inputs`. None: no input is fixed.

    A failed conversion leaves nothing behind. Raises UnsupportedError for a refused node, ConversionError if a check
    fails, and otherwise as `onnx_compat.convert` does.
    """
    source, loaded, result, made_plan, destination, data_file = prepare(model, path, options, shapes, values)
    if made_plan.first_refusal is not None:
        raise refusal_error(made_plan)
    with destination.scratch() as scratch:
        written = os.path.join(scratch, os.path.basename(destination.path))
        written_files = [(destination, written)]
        if data_file is not None:
            written_data = os.path.join(scratch, os.path.basename(data_file.path))
            move_weights(result, written_data)
            written_files.insert(0, (data_file, written_data))
        else:
            _link_data_files(result, scratch)
        result.write(written)
        checked = read_weightless_model(written)
        result_model = checked.load()
        result_model.path = result_model.source = written
        if options.verify:
            made_plan.notes += compare_with_source(
                (source, loaded), (checked, result_model), dict(values or {}), scratch
            )
        put_together(written_files)
    return destination.path, made_plan


class Change(NamedTuple):
    """A converted model in memory. The fields are those of `Preparation`."""

    source: WeightlessModel
    model: Model
    result: WeightlessModel
    plan: RetargetPlan


def change(
    model: ModelSource,
    options: OnnxOptions,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Change:
    """Convert a model in memory, and check its form. Return it with its source and its plan.

    The form is not checked if the plan has a refused node.

    - shapes: input name -> sizes to fix. values: input name -> value to fix. See `fix_inputs`. None: no input is fixed.

    Raises InvalidModelError, InputError and ConversionError as `prepare` does.
    """
    changed = _change(model, options, shapes, values)
    if changed.plan.first_refusal is None:
        changed.plan.notes += check_form(changed.result.without_weights(), changed.source.without_weights())
        restore_external_data(changed.result.proto)
    return changed


def _change(
    model: ModelSource,
    options: OnnxOptions,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Change:
    """Convert a model in memory. Return it with its source and its plan.

    - shapes: input name -> sizes to fix. values: input name -> value to fix. See `fix_inputs`. None: no input is fixed.

    The first attempt leaves out all large weights. If a node is refused because its subgraphs have large weights, a
    second attempt reads these weights. Raises InvalidModelError, InputError and ConversionError as `prepare` does.
    """
    from onnx_compat.retarget.composition import LARGE_WEIGHT

    changed = _try_change(model, options, shapes, values, only_main=False)
    if any(node.outcome == REFUSED and LARGE_WEIGHT in node.reason for node in changed.plan.nodes):
        changed = _try_change(model, options, shapes, values, only_main=True)
    return changed


def _try_change(
    model: ModelSource,
    options: OnnxOptions,
    shapes: Optional[Shapes],
    values: Optional[Mapping[str, Any]],
    only_main: bool,
) -> Change:
    """Convert a model in memory, in one attempt. Return it with its source and its plan.

    - shapes: input name -> sizes to fix. values: input name -> value to fix. See `fix_inputs`. None: no input is fixed.
    - only_main: whether only large initializers of the main graph are left out. Otherwise all large weights are.

    Raises InvalidModelError, InputError and ConversionError as `prepare` does.
    """
    from onnx_compat.retarget.composition import compose_node

    source, loaded = _read_checked(model, only_main)
    result = source.copy()
    embed_small_tensors(result, only_main)
    if shapes or values:
        _fix_ports(result.proto, fix_inputs(loaded, shapes, values), values or {})
    source_form = result.copy()
    if options.simplify:
        _simplify(result)
    versions = options.opset, options.ir_version
    made_plan = retarget_in_place(result.proto, *versions, options.inline_functions, compose_node)
    return Change(source_form, loaded, result, made_plan)


def _describe_weights(result: WeightlessModel, name: Optional[str], moved: int) -> List[str]:
    """Return a note that tells where the weights of a written file are; none if all are inside.

    - name: the name of the data file; None: the weights stay where they are.
    - moved: the number of weights that the data file gets.
    """
    if name is not None and not moved:
        return ["no weight has 1024 bytes: all are inside, and '%s' is not written" % name]
    if name is not None:
        return ["%d weights are in '%s'" % (moved, name)]
    kept = ", ".join("'%s'" % location for location in _data_locations(result))
    return ["the weights stay in %s, which the file needs beside it" % kept] if kept else []


def _data_locations(weightless_model: WeightlessModel) -> List[str]:
    """Return the sorted names of the external data files that a model refers to."""
    return sorted(
        {
            entry.value
            for tensor, _ in stored_tensors(weightless_model.proto)
            if tensor.data_location == tensor.EXTERNAL
            for entry in tensor.external_data
            if entry.key == "location"
        }
    )


def _link_data_files(weightless_model: WeightlessModel, folder: str) -> None:
    """Link the external data files of the source into `folder`, so that a result there can be loaded for the checks.

    A file is copied if the file system has no hard links.
    """
    for location in _data_locations(weightless_model):
        file = os.path.realpath(os.path.join(weightless_model.folder or "", location))
        name = os.path.join(folder, location)
        os.makedirs(os.path.dirname(name), exist_ok=True)
        try:
            os.link(file, name)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, name)


def _read_checked(model: ModelSource, only_main: bool) -> Tuple[WeightlessModel, Model]:
    """Read a model. Return (the model without its large weights, the same model as `load` returns it).

    `only_main`: whether only large initializers of the main graph are left out.

    Raises the errors of `load`, and InvalidModelError for a damaged model that `load` accepts.
    """
    try:
        weightless_model = _read(model, only_main)
        loaded = weightless_model.load()
    except Exception as error:  # a damaged model has errors of many kinds; `load` names the defect
        load(model)
        if isinstance(error, OnnxCompatError):
            raise
        raise InvalidModelError("the model cannot be read: %s" % error) from error
    loaded.path = weightless_model.path
    loaded.source = _source_of(model)
    return weightless_model, loaded


def _read(model: ModelSource, only_main: bool) -> WeightlessModel:
    """Return a model without its large weights. `only_main`: leave out only large initializers of the main graph."""
    folder = model.data_folder if isinstance(model, Model) else None
    return read_weightless_model(_source_of(model), folder, only_main)


def _source_of(model: ModelSource) -> Any:
    """Return the path, bytes or ModelProto that a model is read from. A Model made in memory gives a ModelProto."""
    if isinstance(model, Model):
        return to_proto(model) if model.source is None else model.source
    return os.fspath(model) if isinstance(model, os.PathLike) else model


def _fix_ports(proto: "onnx.ModelProto", fixed: Model, values: Mapping[str, Any]) -> None:
    """Write the fixed sizes and values of inputs into `proto`, in place. An input with a value becomes an initializer.

    `fixed`: the model that `fix_inputs` returned, which has the sizes and the values. Only the names in `values` are
    used.
    """
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
    """Copy the initializer `name` from the Model `fixed` to `proto`. It replaces an initializer of that name."""
    initializer = fixed.graph.initializers[name]
    for position in reversed(range(len(proto.graph.initializer))):
        if proto.graph.initializer[position].name == name:
            del proto.graph.initializer[position]
    proto.graph.initializer.append(tensor_proto(initializer.array(), initializer.dtype, name))


def _simplify(weightless_model: WeightlessModel) -> None:
    """Simplify `weightless_model.proto`, and strip its new large weights. Weights are read when they are needed."""
    from onnx_compat.simplify.simplification import simplify_loaded

    weightless_model.proto = simplify_loaded(weightless_model.proto, weightless_model.load())[0]
    weightless_model.strip()
    gc.collect()  # the traced values form cycles

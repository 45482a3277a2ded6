"""Guarantees of every shim for exported networks: few transposes, native kernels, no retracing, no shared state.

The tests use the small networks of the zoo; ONNX_COMPAT_LAYOUT_SUITE=zoo-full selects the large ones.
"""

import importlib
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import onnx
import pytest
from zoo_cases import case

import onnx_compat
from onnx_compat.discovery.selection import find
from onnx_compat.errors import ConversionError, InputError
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.tracing.interpreter import Interpreter

SUITE = os.environ.get("ONNX_COMPAT_LAYOUT_SUITE", "zoo")
IMAGES = ["resnet50", "mobilenet_v2", "mobilenet_v3", "efficientnet", "unet_bilinear", "unet_transpose"]


def network(name: str) -> Any:
    return case(name, SUITE if name.partition("-")[0] in IMAGES else "zoo")


def primitives(model: Any, shim: str) -> Iterator[Any]:
    emitter = find(shim).emitter()
    trace = trace_model(
        model, emitter, declared_structures(model.graph), Specialisation(), Interpreter(emitter.natives())
    )
    return iter(trace.program.region.live())


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_network_is_permuted_at_its_ends_only(name: str, shim_name: str) -> None:
    """There is at most one transpose for each input or output image, and none if the shim has the layout of the model."""
    model = onnx_compat.load(network(name + "-script-dynamic").model)
    ends = sum(getattr(entry.type, "rank", None) == 4 for entry in model.graph.inputs + model.graph.outputs)
    nodes = list(primitives(model, shim_name))
    permutations = [node for node in nodes if node.primitive == "transpose"]
    assert len(permutations) <= ends
    ports = {ref for node in nodes for ref in node.outputs}
    inner = [node for node in permutations if node.args[0] in ports and node is not nodes[-1]]
    assert not inner, "permuted in the middle: %s" % [node.origin for node in inner]


def _kinds(runnable: Any, shim: str, folder: Path) -> List[str]:
    """Return the kinds of operations in the compiled object: of a graph, of layers or of a file."""
    if shim in ("tf1", "tf2"):
        graph = runnable.native if shim == "tf1" else runnable.native.function.graph
        return [operation.type for operation in graph.get_operations()]
    if shim == "keras":
        keras_model = runnable.native
        if not hasattr(
            keras_model, "operations"
        ):  # Keras 3.0 cannot load a cut of an open axis: no functional model then
            return [node.primitive for node in keras_model.body.program.region.live()]
        return [type(operation).__name__ for operation in keras_model.operations]
    if shim == "onnx":
        proto = onnx.load_from_string(runnable.native._model_bytes)
        return [node.op_type for node in proto.graph.node]
    if shim == "tflite":
        from onnx_compat_tflite import flatbuffer

        path = onnx_compat.convert(runnable.model, folder / "model.tflite")
        return [entry.builtin for graph in flatbuffer.read(path).subgraphs for entry in graph.operators]
    return [node.primitive for node in runnable.native.region.live()]


@pytest.mark.parametrize("name", IMAGES)
def test_weights_of_the_framework_are_not_permuted_again(name: str, shim_name: str, tmp_path: Path) -> None:
    runnable = onnx_compat.prepare(network(name + "-script-dynamic").model, shim=shim_name)
    ends = sum(getattr(entry.type, "rank", None) == 4 for entry in runnable.inputs + runnable.outputs)
    kinds = _kinds(runnable, shim_name, tmp_path)
    assert sum(kind.lower() in ("transpose", "permute") for kind in kinds) <= ends
    assert any("conv" in kind.lower() for kind in kinds), "this counts nothing: %s" % sorted(set(kinds))


def test_grouped_convolutions_stay_whole(shim_name: str) -> None:
    model = onnx_compat.load(network("grouped-script-fixed").model)
    wanted = sum(node.operator == "Conv" for node in model.graph.nodes)
    kinds = ("conv", "depthwise_conv")
    assert sum(node.primitive in kinds for node in primitives(model, shim_name)) == wanted


def test_two_models_of_different_opset_and_two_recurrent_ones_live_side_by_side(shim_name: str) -> None:
    """The models are prepared in one order and run in turns. Each keeps its own state and the meanings of its opset."""
    names = ["lstm-script-dynamic", "gru-script-dynamic", "lstm-script-fixed", "bert-script-fixed", "bert-dynamo-fixed"]
    cases = {name: network(name) for name in names}
    runnables = {name: onnx_compat.prepare(entry.model, shim=shim_name) for name, entry in cases.items()}
    for _ in range(2):
        for name in names + names[::-1]:
            data = next(iter(cases[name].data_sets()))
            for got, expected in zip(runnables[name].run(data.inputs), data.outputs.values()):
                np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4)


def test_a_wrong_input_is_refused_and_the_model_goes_on(shim_name: str) -> None:
    entry = network("residual-script-dynamic")
    data = next(iter(entry.data_sets()))
    runnable = onnx_compat.prepare(entry.model, shim=shim_name)
    ((name, image),) = data.inputs.items()
    wrong: Dict[str, Any] = {"dtype": image.astype(np.float64), "rank": image[0], "size": image[:, :1]}
    for array in wrong.values():
        with pytest.raises(InputError, match=name):
            runnable.run({name: array})
    with pytest.raises(InputError, match="no input named"):
        runnable.run({"nothing": image})
    (expected,) = data.outputs.values()
    np.testing.assert_allclose(runnable.run({name: image})[0], expected, rtol=2e-3, atol=2e-4)


def test_names_are_the_models(shim_name: str) -> None:
    entry = network("bert-script-dynamic")
    runnable = onnx_compat.prepare(entry.model, shim=shim_name)
    data = next(iter(entry.data_sets()))
    assert runnable.run(data.inputs).names == tuple(info.name for info in runnable.outputs)


def _keeps_keys() -> bool:
    """Return whether this Keras loads files with a GetItem; Keras 3.0 does not."""
    return bool(importlib.import_module("onnx_compat_keras.features").keeps_keys())


@pytest.mark.parametrize("name", ["residual", "grouped", "unet_bilinear", "bert", "gpt", "lstm", "gru"])
def test_a_file_gives_the_same_numbers_under_the_models_names(name: str, shim_name: str, tmp_path: Path) -> None:
    """This holds for each format that the shim writes, with every symbolic size of the model."""
    entry = network(name + "-script-dynamic")
    formats = find(shim_name).formats
    assert bool(formats) == (shim_name != "reference"), "every framework has a format, the reference has none"
    if name == "unet_bilinear" and shim_name == "keras" and not _keeps_keys():
        with pytest.raises(ConversionError, match="cannot load a model that slices an axis of unknown length"):
            onnx_compat.convert(entry.model, tmp_path / "unet.keras", shim=shim_name)
        return
    for form, (suffix, _) in formats.items():
        path = onnx_compat.convert(entry.model, tmp_path / (form + suffix), to=form, shim=shim_name)
        converted = onnx_compat.load_converted(path, shim_name)
        for data in entry.data_sets():
            named = converted.run(data.inputs)
            assert set(named.names) == set(data.outputs)
            for key, expected in data.outputs.items():
                np.testing.assert_allclose(named[key], expected, rtol=1e-3, atol=1e-3)
    assert sorted(os.listdir(str(tmp_path))) == sorted(f + s for f, (s, _) in formats.items())


def test_a_file_has_channels_last_ports_on_request(shim_name: str, tmp_path: Path) -> None:
    """This holds for each format. With inputs and outputs channels-last, no transpose stays inside the file."""
    from onnx_compat.conversion.port_layout import move_channels

    entry = network("unet_nearest-dynamo-fixed")
    data = next(iter(entry.data_sets()))
    names = [*data.inputs, *data.outputs]
    for form, (suffix, _) in find(shim_name).formats.items():
        path = onnx_compat.convert(
            entry.model, tmp_path / (form + suffix), to=form, shim=shim_name, channels_last=names
        )
        results = onnx_compat.load_converted(path, shim_name).run(move_channels(data.inputs, names, "last"))
        for key, expected in data.outputs.items():
            np.testing.assert_allclose(np.moveaxis(results[key], -1, 1), expected, rtol=1e-3, atol=1e-3)
        report = onnx_compat.verify(entry.model, shim=shim_name, converted=path, channels_last=names)
        assert report.ok, report.summary
        with pytest.raises(InputError) as caught:
            onnx_compat.verify(entry.model, shim=shim_name, converted=path)
        assert "channels_last" in (caught.value.hint or "")

"""Export a PyTorch network to ONNX in several ways, and record data sets with the outputs of onnxruntime.

The outputs of PyTorch must agree with those of onnxruntime.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple, Union

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from matrix.zoo.catalog import Model

__all__ = ["ATOL", "RTOL", "Disagreement", "Variant", "export", "record", "variants"]

RTOL, ATOL = 1e-3, 1e-4


class Disagreement(Exception):
    """The outputs of the exported file in onnxruntime differ from those of the network in PyTorch."""


@dataclass(frozen=True)
class Variant:
    """A way to export a network: the exporter, "script" or "dynamo" (torch.export), and the opset.

    `dynamic`: whether named sizes stay symbolic.
    """

    exporter: str
    dynamic: bool
    opset: int

    @property
    def name(self) -> str:
        """Return the name of the variant, as a part of case names: `script-dynamic`."""
        return "%s-%s" % (self.exporter, "dynamic" if self.dynamic else "fixed")


def variants(model: Model) -> List[Variant]:
    """Return the variants of a network: four, with different opsets; two for a large network."""
    if model.full:
        return [Variant("dynamo", False, 18), Variant("script", True, 17)]
    return [
        Variant("script", False, model.old_opset),
        Variant("script", True, 17),
        Variant("dynamo", False, 18),
        Variant("dynamo", True, 20),
    ]


def export(model: Model, network: nn.Module, variant: Variant) -> bytes:
    """Return the bytes of the ONNX file that an exporter of PyTorch writes for a network.

    `variant`: the exporter, the opset, and whether sizes are open.
    """
    sample = model.sample(model.fixed_sizes())
    options: Dict[str, object] = {"opset_version": variant.opset, "dynamo": variant.exporter == "dynamo"}
    if variant.exporter == "dynamo":
        options.update(external_data=False, verbose=False)
        if variant.dynamic:
            options["dynamic_shapes"] = {
                name: {
                    axis: torch.export.Dim.DYNAMIC
                    for axis, size in value.symbolic_axes().items()
                    if size not in model.unrolled
                }
                for name, value in model.inputs.items()
            }
    else:
        # This keeps batch normalisation; the other exporter folds it into the convolutions.
        options["training"] = torch.onnx.TrainingMode.PRESERVE
        if variant.dynamic:
            options["dynamic_axes"] = {**_input_axes(model), **_output_axes(model, network)}
    with tempfile.TemporaryDirectory() as folder, _quiet():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            network,
            args=() if variant.exporter == "dynamo" else tuple(sample.values()),
            kwargs=sample if variant.exporter == "dynamo" else None,
            f=path,
            input_names=list(sample),
            output_names=list(model.outputs),
            **options,
        )
        return _serialize_model(onnx.load(path))


def record(model: Model, network: nn.Module, variant: Variant, content: bytes) -> List[Tuple[List[bytes], List[bytes]]]:
    """Run an exported file in onnxruntime, and return its data sets: pairs (serialised inputs, serialised outputs).

    A dynamic variant has a data set for each combination of sizes that it accepts, a fixed variant has two. Raises
    Disagreement if the outputs of PyTorch differ from those of onnxruntime. `content`: the bytes of the file.
    """
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    if variant.dynamic:
        closed = model.unrolled if variant.exporter == "dynamo" else ()
        samples = [model.sample(sizes) for sizes in model.grid(closed)]
    else:
        samples = [model.sample(model.fixed_sizes(), salt) for salt in ("", "again")]
    return [_run(session, network, sample) for sample in samples]


def _run(
    session: onnxruntime.InferenceSession, network: nn.Module, sample: Mapping[str, Tensor]
) -> Tuple[List[bytes], List[bytes]]:
    """Return the data set of a sample, with the outputs of onnxruntime. Raises Disagreement if PyTorch has others."""
    feeds = {name: value.numpy() for name, value in sample.items()}
    outputs = session.run(None, feeds)
    with torch.no_grad():
        expected = network(**sample)
    for output, ours, theirs in zip(session.get_outputs(), outputs, _as_list(expected)):
        if not np.allclose(ours, theirs.numpy(), rtol=RTOL, atol=ATOL):
            raise Disagreement("%s differs by %g" % (output.name, np.abs(ours - theirs.numpy()).max()))
    return _serialize(feeds.values()), _serialize(outputs)


def _input_axes(model: Model) -> Dict[str, Dict[int, str]]:
    """Return input -> axis -> name of its size, for the symbolic axes; an argument of the script exporter.

    A multiple of a named size needs a name of its own, such as `length_times_8`.
    """
    return {
        name: {axis: size.replace("*", "_times_") for axis, size in value.symbolic_axes().items()}
        for name, value in model.inputs.items()
    }


def _output_axes(model: Model, network: nn.Module) -> Dict[str, Dict[int, str]]:
    """Return output -> axis -> name of its size, for the axes whose size varies with the sizes of the inputs.

    Without these names, the script exporter writes the sizes that it traced.
    """
    with torch.no_grad():
        shapes = [[list(y.shape) for y in _as_list(network(**model.sample(sizes)))] for sizes in model.grid()]
    return {
        name: {axis: f"{name}_{axis}" for axis, sizes in enumerate(zip(*shapes_of_output)) if len(set(sizes)) > 1}
        for name, shapes_of_output in zip(model.outputs, zip(*shapes))
    }


def _as_list(outputs: Union[Tensor, Sequence[Tensor]]) -> Sequence[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def _serialize(values: Iterable[np.ndarray]) -> List[bytes]:
    return [numpy_helper.from_array(np.ascontiguousarray(value)).SerializeToString() for value in values]


def _serialize_model(proto: onnx.ModelProto) -> bytes:
    """Return the bytes of a model without the exporter's metadata, whose stack traces hold paths of this machine."""
    graph = proto.graph
    for part in (proto, graph, *graph.node, *graph.initializer, *graph.input, *graph.output, *graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    for function in proto.functions:
        for part in (function, *function.node):
            part.ClearField("metadata_props")
            part.ClearField("doc_string")
    content: bytes = proto.SerializeToString()
    return content


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress logs, warnings and prints inside the block: the exporters emit them at each export."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), open(os.devnull, "w") as nowhere:
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(nowhere):
                yield
    finally:
        logging.disable(level)

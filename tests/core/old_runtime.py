"""An onnxruntime that lacks something: the installed one, which refuses what an older one would refuse."""

from typing import Any, Callable, Iterator

import onnx
import pytest

from onnx_compat.onnx_shim import providers, runtime

__all__ = ["REFUSALS", "age", "forget_probes", "imported_opset", "nodes_of"]


def imported_opset(proto: Any) -> int:
    """Return the version of ai.onnx that a model imports."""
    return max(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))


def nodes_of(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def _mish_of_half(proto: Any) -> bool:
    halves = {port.name for port in proto.graph.input if port.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16}
    return any(node.op_type == "Mish" and halves.intersection(node.input) for node in nodes_of(proto.graph))


#: What an onnxruntime lacks -> whether it refuses a model.
REFUSALS = {
    "opset": lambda proto: imported_opset(proto) > 17,
    "IR version": lambda proto: proto.ir_version > 8,
    "operator": lambda proto: any(node.op_type == "Mish" for node in nodes_of(proto.graph)),
    "type": _mish_of_half,
}


def forget_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop what is known about the installed onnxruntime, for one test."""
    monkeypatch.setattr(runtime, "_OFFERS", {})
    monkeypatch.setattr(runtime, "_IR_VERSIONS", [])
    monkeypatch.setattr(providers, "_USABLE", {})


def age(monkeypatch: pytest.MonkeyPatch, refuses: Callable[[Any], bool]) -> None:
    """Make the onnxruntime of this process refuse to load some models, for one test."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session: Any = onnxruntime.InferenceSession

    class Older(session):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self, content: bytes, *args: Any, **kwargs: Any) -> None:
            if refuses(onnx.load_from_string(content)):
                raise RuntimeError("it is newer than this onnxruntime")
            super().__init__(content, *args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Older)
    forget_probes(monkeypatch)

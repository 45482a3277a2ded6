"""The official ONNX Backend API (`onnx.backend.base`) over the shim that is selected.

import onnx_compat.backend as backend
rep = backend.prepare(model_proto, device="CPU")
outputs = rep.run(inputs)
"""

from typing import Any, Optional, Sequence, Tuple

from onnx import ModelProto, NodeProto, ValueInfoProto, helper
from onnx.backend import base

from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError, ShimError
from onnx_compat.execution.runnable import Runnable
from onnx_compat.execution.runnable import prepare as prepare_runnable
from onnx_compat.execution.support import support
from onnx_compat.ir.dtypes import DType

__all__ = ["BackendRep", "OnnxCompatBackend", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class BackendRep(base.BackendRep):
    """A prepared model, as the Backend API knows it."""

    def __init__(self, runnable: Runnable) -> None:
        super().__init__()
        self.runnable = runnable

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        return tuple(self.runnable.run(inputs))


class OnnxCompatBackend(base.Backend):
    """`ONNX_COMPAT_SHIM`, or the keyword `shim`, says which shim runs it. Devices are named as for
    `onnx_compat.prepare`: "CPU", "CUDA", "CUDA:1".
    """

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", shim: Optional[str] = None, **kwargs: Any) -> bool:
        if not cls.supports_device(device, shim):
            return False
        try:
            return all(node.status != "unsupported" for node in support(model, shim))
        except OnnxCompatError:
            return False

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", shim: Optional[str] = None, **kwargs: Any) -> BackendRep:
        return BackendRep(prepare_runnable(model, shim, device))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Optional[Sequence[Any]] = None,
        **kwargs: Any,
    ) -> Tuple[Any, ...]:
        """One operator, under the newest opset that the installed onnx knows (or `opset_version`)."""
        import numpy as np

        arrays = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        names = [name for name in node.input if name]
        given = [
            helper.make_tensor_value_info(name, DType.of(np.asarray(a)).onnx, np.shape(a))
            for name, a in zip(names, arrays)
        ]
        asked = [ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", given, asked)
        opsets = [helper.make_opsetid(node.domain, kwargs.pop("opset_version"))] if "opset_version" in kwargs else None
        model = helper.make_model(graph, **({"opset_imports": opsets} if opsets else {}))
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str, shim: Optional[str] = None) -> bool:
        """Whether the framework of the shim has this device here."""
        try:
            selection.find(selection.decide(shim).name).resolve_device(device)
        except ShimError:
            return False
        return True


is_compatible = OnnxCompatBackend.is_compatible
prepare = OnnxCompatBackend.prepare
run_model = OnnxCompatBackend.run_model
run_node = OnnxCompatBackend.run_node
supports_device = OnnxCompatBackend.supports_device

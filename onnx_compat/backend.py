"""Implement the ONNX Backend API (`onnx.backend.base`) with the selected shim.

import onnx_compat.backend as backend
rep = backend.prepare(model_proto, device="CPU")
outputs = rep.run(inputs)
"""

from typing import Any, Optional, Sequence, Tuple

from onnx import ModelProto, NodeProto, ValueInfoProto, helper
from onnx.backend import base

from onnx_compat.discovery import selection
from onnx_compat.errors import OnnxCompatError, ShimError
from onnx_compat.execution.prepare import prepare as prepare_runnable
from onnx_compat.execution.runnable import Runnable
from onnx_compat.execution.support import support
from onnx_compat.ir.dtypes import DType

__all__ = ["BackendRep", "OnnxCompatBackend", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class BackendRep(base.BackendRep):
    """A prepared model with the interface of the Backend API."""

    def __init__(self, runnable: Runnable) -> None:
        super().__init__()
        self.runnable = runnable

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        """Run the model. Return its outputs as a tuple in the model's order. Raises as `Runnable.run` does.

        inputs: a dict by name, or a list or tuple in the model's order, as for `Runnable.run`.
        kwargs: ignored.
        """
        return tuple(self.runnable.run(inputs))


class OnnxCompatBackend(base.Backend):
    """The Backend API on a shim.

    The keyword `shim` selects the shim. Without it, the shim is selected as by `onnx_compat.prepare`: first by the
    environment variable `ONNX_COMPAT_SHIM`. Devices are named as for `onnx_compat.prepare`: "CPU", "CUDA", "CUDA:1".
    """

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", shim: Optional[str] = None, **kwargs: Any) -> bool:
        """Whether the shim and the fallback can run every node of the model, and the device exists.

        The answer for the nodes is the prediction of `onnx_compat.support`: nothing is run. False also for an invalid
        model, and if the requested shim does not work: no OnnxCompatError is raised. Other keywords are ignored.
        """
        if not cls.supports_device(device, shim):
            return False
        try:
            return all(node.status != "unsupported" for node in support(model, shim))
        except OnnxCompatError:
            return False

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", shim: Optional[str] = None, **kwargs: Any) -> BackendRep:
        """Return a model that is prepared for runs on a device.

        `shim`, and the errors that are raised, are those of `onnx_compat.prepare`. Other keywords are ignored.
        """
        return BackendRep(prepare_runnable(model, shim, device))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
        """Prepare a model and run it once. Return its outputs as a tuple in the model's order.

        inputs: a dict by name, or a list or tuple in the model's order.

        kwargs: `shim` is the name of the shim; other keywords are ignored.

        Raises the errors of `prepare` and of `BackendRep.run`.
        """
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
        """Run one node as a model. Return its named outputs in order, as a tuple.

        inputs: a list, or the values of a dict: an array for each input that the node names, in order. Keys are
            ignored.
        outputs_info: ignored.
        kwargs: `shim`, and `opset_version`, the version of the node's domain. By default, only the default domain is
            imported, in the newest version that the installed onnx knows. Other keywords are ignored.

        Raises the errors of `run_model`, and UnsupportedError for an array of a dtype that ONNX lacks.
        """
        import numpy as np

        arrays = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        names = [name for name in node.input if name]
        inputs_info = [
            helper.make_tensor_value_info(name, DType.of(np.asarray(a)).onnx, np.shape(a))
            for name, a in zip(names, arrays)
        ]
        requested_outputs = [ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", inputs_info, requested_outputs)
        opsets = [helper.make_opsetid(node.domain, kwargs.pop("opset_version"))] if "opset_version" in kwargs else None
        model = helper.make_model(graph, **({"opset_imports": opsets} if opsets else {}))
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str, shim: Optional[str] = None) -> bool:
        """Whether this machine has the device `device`, according to the framework of the shim.

        False if the shim does not work, or if `device` is not the name of a device. `shim` None: the shim that
        `prepare` selects.
        """
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

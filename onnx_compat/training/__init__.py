"""Train ONNX models: losses, metrics, optimizers and learning-rate schedules, as functions over primitives.

Importing this package imports no framework. Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from onnx_compat.training.loss_scaling import DynamicLossScale
    from onnx_compat.training.losses import scalar_loss
    from onnx_compat.training.metrics import scalar_metric
    from onnx_compat.training.optimizers import Optimizer, optimizer
    from onnx_compat.training.schedules import Schedule, schedule

__all__ = ["DynamicLossScale", "Optimizer", "Schedule", "optimizer", "scalar_loss", "scalar_metric", "schedule"]

#: Name -> the module that defines it.
_MODULES = {
    "DynamicLossScale": "onnx_compat.training.loss_scaling",
    "Optimizer": "onnx_compat.training.optimizers",
    "Schedule": "onnx_compat.training.schedules",
    "optimizer": "onnx_compat.training.optimizers",
    "scalar_loss": "onnx_compat.training.losses",
    "scalar_metric": "onnx_compat.training.metrics",
    "schedule": "onnx_compat.training.schedules",
}


def __getattr__(name: str) -> Any:
    """Import a name of this package when it is first used, and return its object. Raises AttributeError for others."""
    if name not in _MODULES:
        raise AttributeError("module 'onnx_compat.training' has no attribute '%s'" % name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> List[str]:
    """Return the names of this package, without submodules and helpers."""
    return list(__all__)

"""Train ONNX models: write training models, and run their steps on every shim.

    from onnx_compat.training import make_trainable, optimizer, prepare_training

    model = make_trainable("m.onnx", "sparse_categorical_crossentropy", optimizer("adamw", 1e-3), metrics=["accuracy"])
    trainer = prepare_training(model, shim="tf2")
    trainer.fit({"image": images, "labels": labels}, epochs=5)
    trainer.save("trained.onnx", training=False)

Importing this package imports no framework. Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from onnx_compat.training.loss_scaling import DynamicLossScale
    from onnx_compat.training.losses import scalar_loss
    from onnx_compat.training.metrics import scalar_metric
    from onnx_compat.training.optimizers import Optimizer, optimizer
    from onnx_compat.training.parts import step_model
    from onnx_compat.training.progress import Progress
    from onnx_compat.training.schedules import LearningRateSchedule, schedule
    from onnx_compat.training.trainer import Trainer, prepare_training
    from onnx_compat.training.training_model import make_trainable

__all__ = [
    "DynamicLossScale",
    "LearningRateSchedule",
    "Optimizer",
    "Progress",
    "Trainer",
    "make_trainable",
    "optimizer",
    "prepare_training",
    "scalar_loss",
    "scalar_metric",
    "schedule",
    "step_model",
]

#: Name -> the module that defines it.
_MODULES = {
    "DynamicLossScale": "onnx_compat.training.loss_scaling",
    "LearningRateSchedule": "onnx_compat.training.schedules",
    "Optimizer": "onnx_compat.training.optimizers",
    "Progress": "onnx_compat.training.progress",
    "Trainer": "onnx_compat.training.trainer",
    "make_trainable": "onnx_compat.training.training_model",
    "optimizer": "onnx_compat.training.optimizers",
    "prepare_training": "onnx_compat.training.trainer",
    "scalar_loss": "onnx_compat.training.losses",
    "scalar_metric": "onnx_compat.training.metrics",
    "schedule": "onnx_compat.training.schedules",
    "step_model": "onnx_compat.training.parts",
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

"""Files of frameworks, as far as they can be told about without the framework; nothing of them is trusted, or run."""

import os
from typing import Optional

from onnx_compat.inspection.foreign import keras_file, saved_model
from onnx_compat.shim.description import Description

__all__ = ["describe_foreign_file"]


def describe_foreign_file(path: str) -> Optional[Description]:
    """What a .keras file or the folder of a SavedModel is; None of anything else."""
    if os.path.isdir(path):
        return saved_model.described(path) if os.path.exists(os.path.join(path, saved_model.FILE)) else None
    return keras_file.described(path) if path.lower().endswith(".keras") else None

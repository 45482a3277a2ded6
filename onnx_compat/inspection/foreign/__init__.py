"""Describe files of frameworks without the framework. The content is untrusted input: it is parsed, never executed."""

import os
from typing import Optional

from onnx_compat.inspection.foreign import keras_file, saved_model
from onnx_compat.shim.description import Description

__all__ = ["describe_foreign_file"]


def describe_foreign_file(path: str) -> Optional[Description]:
    """Return the description of a .keras file or of the folder of a SavedModel. Return None for any other path.

    A .keras file ends in ".keras", in upper or lower case. A SavedModel is a folder with a file `saved_model.pb`.

    Raises `InputError` if the file cannot be read, and `InvalidModelError` if it is damaged.
    """
    if os.path.isdir(path):
        return saved_model.describe_saved_model(path) if os.path.exists(os.path.join(path, saved_model.FILE)) else None
    return keras_file.describe_keras_file(path) if path.lower().endswith(".keras") else None

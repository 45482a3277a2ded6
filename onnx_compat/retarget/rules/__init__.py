"""The rules that rewrite operators, one family a module. Importing a module registers its steps."""

import functools
import importlib

__all__ = ["import_all"]

_FAMILIES = ("axes", "elementwise", "normalization", "quantization", "resizing", "shapes", "windows")


@functools.lru_cache(maxsize=None)
def import_all() -> None:
    """Import every family of rules, which registers its steps. Later calls do nothing."""
    for family in _FAMILIES:
        importlib.import_module("onnx_compat.retarget.rules." + family)

"""The exported networks of the zoo in the cache, by name."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

__all__ = ["case"]

ROOT = Path(__file__).parents[3]
if "matrix" not in sys.modules:  # without the root on the path: `onnx_compat` must come from where it is installed
    _spec = importlib.util.spec_from_file_location(
        "matrix", str(ROOT / "matrix" / "__init__.py"), submodule_search_locations=[str(ROOT / "matrix")]
    )
    assert _spec is not None and _spec.loader is not None
    sys.modules["matrix"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["matrix"])


def case(name: str, suite: str = "zoo") -> Any:
    from matrix.suites.cache import read_index

    return next(entry for entry in read_index(suite) if entry.id.endswith("/" + name))

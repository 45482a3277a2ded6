"""Make `matrix` importable without its parent on the path: `onnx_compat` must come from its wheel."""

import importlib.util
import sys
from pathlib import Path

if "matrix" not in sys.modules:
    _folder = Path(__file__).parents[2] / "matrix"
    _spec = importlib.util.spec_from_file_location(
        "matrix", str(_folder / "__init__.py"), submodule_search_locations=[str(_folder)]
    )
    assert _spec is not None and _spec.loader is not None
    sys.modules["matrix"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["matrix"])

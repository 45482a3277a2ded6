"""Make `benchmarks` importable without adding the source tree to the path, as tests/matrix does for `matrix`."""

import importlib.util
import sys
from pathlib import Path

if "benchmarks" not in sys.modules:
    _folder = Path(__file__).parents[2] / "benchmarks"
    _spec = importlib.util.spec_from_file_location(
        "benchmarks", _folder / "__init__.py", submodule_search_locations=[str(_folder)]
    )
    assert _spec is not None and _spec.loader is not None
    sys.modules["benchmarks"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["benchmarks"])

"""Import a package from its folder, without the parent folder on the path: `onnx_compat` must come from its wheel.

Code outside of the package `matrix` runs this file by its path: `runpy.run_path(".../by_path.py")["import_package"]`. It
needs only the standard library, and Python 3.7.
"""

import importlib.util
import sys
from pathlib import Path

__all__ = ["import_package"]


def import_package(folder: Path) -> None:
    """Import the package in `folder` under the name of the folder. Do nothing if a package of this name is imported."""
    name = folder.name
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        name, str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])

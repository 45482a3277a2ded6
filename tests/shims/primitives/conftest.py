"""Options of the tests of primitives. ONNX_COMPAT_SHIM names the shim under test.

By default it is the reference, which is compared with itself for fixed and for symbolic sizes.
"""

import os
from pathlib import Path
from typing import Any, List

import pytest

from matrix.by_path import import_package
from onnx_compat.discovery import selection

HERE = Path(__file__).parent
import_package(HERE / "cases")

from cases import gaps  # noqa: E402


@pytest.fixture(scope="session")
def shim() -> Any:
    selected = selection.find(os.environ.get("ONNX_COMPAT_SHIM", "reference"))
    probe = selected.probe()
    assert probe.available, probe.reason
    return selected


@pytest.fixture(scope="session")
def declared_gaps(shim: Any) -> List[gaps.Gap]:
    selected: List[gaps.Gap] = gaps.load(HERE.parents[1] / "gaps" / ("primitives-%s.toml" % shim.name))
    return selected

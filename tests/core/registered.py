"""Registration of a test's own shim."""

import pytest

from onnx_compat.discovery import selection
from onnx_compat.discovery.selection import Probe
from onnx_compat.shim.interface import Shim


def register(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    """Make a shim the only installed shim, and its framework available, for one test."""
    monkeypatch.setitem(selection._LOADED, shim.name, shim)
    monkeypatch.setitem(selection._PROBED, shim.name, Probe(True, "for tests"))
    monkeypatch.setattr(selection, "installed_shims", lambda: {shim.name: None})

"""Record the options with which the command line calls `convert`."""

from pathlib import Path
from typing import Any, Dict

import pytest

import onnx_compat


def record_convert(monkeypatch: pytest.MonkeyPatch) -> Dict[str, Any]:
    """Replace `onnx_compat.convert` by a function that writes an empty file. Return the options of its last call."""
    seen: Dict[str, Any] = {}

    def convert(model: Any, path: Any, **options: Any) -> Path:
        seen.update(options)
        Path(path).write_bytes(b"")
        return Path(path)

    monkeypatch.setattr(onnx_compat, "convert", convert, raising=False)
    return seen

"""What tox needs to do what nox does, and cannot be said in tox.ini: where Pythons, nox and local wheels are; is there a GPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tox.plugin import impl  # type: ignore[import-not-found]  # in the environment of tox only
from tox.tox_env.errors import Fail, Skip  # type: ignore[import-not-found]  # in the environment of tox only

from matrix import cells, devices
from matrix.data import load
from matrix.interpreters import folders
from matrix.links import tell_uv

# pyenv's own `python3.7` fails where that version is not activated, and uv takes the first that it sees.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *folders(), os.environ.get("PATH", "")])
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
tell_uv()


@impl  # type: ignore[untyped-decorator]
def tox_before_run_commands(tox_env: Any) -> None:
    cell = load().cells.get(tox_env.conf.name)
    if cell is not None and (missing := cells.before(cell)):
        said = devices.unready(cell, missing)
        raise Skip(said) if missing.state == devices.NO_GPU else Fail(said)

"""Plugin of tox for settings that tox.ini cannot express: folders of Pythons, of nox and of local wheels, and the GPU
check.
"""

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
from matrix.links import set_uv_find_links

# pyenv's own `python3.7` fails unless that version is active, and uv takes the first `python3.7` on PATH.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *folders(), os.environ.get("PATH", "")])
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
set_uv_find_links()


@impl  # type: ignore[untyped-decorator]  # tox has no types here
def tox_before_run_commands(tox_env: Any) -> None:
    """Skip a cell that needs a GPU on a machine without GPU; fail it if the GPU is there but cannot be used."""
    cell = load().cells.get(tox_env.conf.name)
    if cell is not None and (missing := cells.gpu_problem(cell)):
        reason = devices.write_unready(cell, missing)
        raise Skip(reason) if missing.state == devices.NO_GPU else Fail(reason)

"""What tox needs to do what nox does, and cannot be said in tox.ini: where Pythons, nox and local wheels are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from matrix.interpreters import folders
from matrix.links import tell_uv

# pyenv's own `python3.7` fails where that version is not activated, and uv takes the first that it sees.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), *folders(), os.environ.get("PATH", "")])
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
tell_uv()

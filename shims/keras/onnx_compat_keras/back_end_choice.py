"""Choose the back end of Keras before Keras is imported, if the user has not chosen one that is installed."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Callable, List, Optional

__all__ = ["choose_back_end"]

#: Back ends of Keras that this shim supports. The module of each has the same name.
NAMES = ("tensorflow", "jax", "torch")
VARIABLE = "KERAS_BACKEND"


def choose_back_end() -> None:
    """Set the environment variable KERAS_BACKEND to the only installed back end, if Keras would use another.

    Does nothing in these cases:

    - The variable is set.
    - Keras is imported already. Keras reads the variable only when it is imported.
    - The back end that Keras would use (see `_read_configured`) is installed.
    - None or several of `NAMES` are installed.

    Child processes inherit the variable.
    """
    if VARIABLE in os.environ or "keras" in sys.modules:
        return
    name = only_installed(_read_configured(), _is_installed)
    if name is not None:
        os.environ[VARIABLE] = name


def only_installed(configured: str, is_installed: Callable[[str], bool]) -> Optional[str]:
    """Return the only installed back end, if `configured` is not installed. Otherwise return None."""
    if is_installed(configured):
        return None
    names: List[str] = [name for name in NAMES if is_installed(name)]
    return names[0] if len(names) == 1 else None


def _read_configured() -> str:
    """Return the back end that Keras uses without the variable: the one in its file keras.json, else "tensorflow".

    Keras writes the file at its first import, so the back end in the file is not always a choice of the user.
    """
    home = os.environ.get("KERAS_HOME") or str(Path.home() / ".keras")
    try:
        config = json.loads(Path(home, "keras.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # as Keras reads it
        return "tensorflow"
    return str(config.get("backend", "tensorflow")) if isinstance(config, dict) else "tensorflow"


def _is_installed(name: str) -> bool:
    """Whether a module of this name is installed. A folder that an uninstallation has left behind does not count."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # the name of a damaged or half-imported module
        return False
    return spec is not None and spec.origin is not None

"""`onnx-compat doctor`: which shims are here, which one is used, and why."""

import platform
import sys
from typing import Any, Dict, Optional, Tuple

import click

from . import options
from .codes import ENVIRONMENT, OK
from .output import Cell, emit, emit_json, table
from .progress import working

__all__ = ["doctor"]


@click.command()
@options.machine
@click.pass_obj
def doctor(settings: options.Settings) -> int:
    """Show each shim, whether it works here and why, what its framework can do, and which one is selected."""
    import onnx_compat

    with working("Probing the shims"):
        found = onnx_compat.shims()
        selected, decision = _decision()
        environment = _environment()
    if settings.json:
        emit_json(
            {
                "ok": selected is not None,
                "selected": selected,
                "decision": decision,
                "environment": environment,
                "shims": [_fields(info) for info in found],
            }
        )
    else:
        emit(", ".join("%s %s" % item for item in environment.items()))
        table(
            ("", "shim", "works", "framework", "reason"),
            [
                ["*" if info.name == selected else "", info.name, Cell.verdict("yes" if info.available else "no", info.available),
                 " ".join(filter(None, (info.framework, info.version))), info.reason]
                for info in found
            ],
        )  # fmt: skip
        for info in found:
            if info.available and info.features:
                emit("%s: %s" % (info.name, ", ".join(_feature(name, value) for name, value in info.features.items())))
        emit("selected: %s (%s)" % (selected or "none", decision))
    return OK if selected is not None else ENVIRONMENT


def _decision() -> Tuple[Optional[str], str]:
    """The shim that would be used, and why; or why none."""
    from onnx_compat import select
    from onnx_compat.errors import ShimError

    try:
        return select.decide()
    except ShimError as error:
        return None, error.reason


def _environment() -> Dict[str, str]:
    """What a report of a problem should say."""
    import numpy as np
    import onnx

    system = "%s %s" % (platform.system(), platform.machine())
    return {
        "Python": platform.python_version(),
        "on": system,
        "onnx": onnx.__version__,
        "numpy": np.__version__,
        "at": sys.prefix,
    }


def _feature(name: str, value: Any) -> str:
    """`f16`, `no f16` or `converter=direct`."""
    if isinstance(value, bool):
        return name if value else "no " + name
    return "%s=%s" % (name, value)


def _fields(info: Any) -> Dict[str, Any]:
    names = ("name", "available", "selected", "reason", "framework", "version")
    return dict({name: getattr(info, name) for name in names}, features=dict(info.features))

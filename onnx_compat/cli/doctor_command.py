"""`onnx-compat doctor`: which shims are here, which one is used, and why; and what to do about those that are not."""

import os
import platform
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence, Tuple

import click

from onnx_compat.cli import options
from onnx_compat.cli.exit_codes import ENVIRONMENT, OK
from onnx_compat.cli.output import Cell, emit, emit_json, table
from onnx_compat.cli.progress import working

__all__ = ["doctor"]


@click.command()
@options.machine
@click.pass_obj
def doctor(settings: options.Settings) -> int:
    """Show each shim: whether it works here and why, what its framework can do, and whether it is selected.

    Each shim is probed in a process of its own: a broken shim does not affect the others.
    """
    environment, broken = _environment()
    selected: Optional[str] = None
    decision, found, absent = "nothing is", [], []
    if "numpy" not in broken:
        from onnx_compat.cli.doctor_absent import absentees

        with working("Probing the shims"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # all of it is told below
            found = _probed()
            selected, decision, remedy = _decision()
            absent = absentees()
        if remedy:
            broken["ONNX_COMPAT_SHIM"] = remedy
    ok = selected is not None and not broken
    if settings.json:
        emit_json(
            {
                "ok": ok,
                "selected": selected,
                "decision": decision,
                "environment": environment,
                "shims": [_fields(info) for info in found],
                "absent": [each._asdict() for each in absent],
                "to do": broken,
            }
        )
        return OK if ok else ENVIRONMENT
    emit(", ".join("%s %s" % item for item in environment.items()))
    if found:
        _show(found, selected)
    for each in absent:
        emit("%s: %s" % (each.name, each.reason) + ("\n  to do: %s" % each.hint if each.hint else ""))
    for what, remedy in broken.items():
        emit("%s: to do: %s" % (what, remedy))
    emit("selected: %s (%s)" % (selected or "none", decision))
    return OK if ok else ENVIRONMENT


def _probed() -> List[Any]:
    """All shims, each probed apart from the others, as in a process that has just begun."""
    import onnx_compat
    from onnx_compat.discovery import child_probe, environment, selection

    names = list(selection.installed())
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        outcomes = pool.map(lambda name: child_probe.probe_in_child(name, environment.MODULES.get(name, ())), names)
        for name, outcome in zip(names, outcomes):
            if outcome is not None:
                selection.learn(name, outcome)
    return onnx_compat.shims()


def _show(found: Sequence[Any], selected: Optional[str]) -> None:
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
        elif info.hint:
            emit("%s: to do: %s" % (info.name, info.hint))


def _decision() -> Tuple[Optional[str], str, Optional[str]]:
    """The shim that would be used, and why; or why none, and what to do."""
    from onnx_compat.discovery import selection
    from onnx_compat.errors import ShimError

    try:
        decision = selection.decide()
    except ShimError as error:
        asked = os.environ.get("ONNX_COMPAT_SHIM")
        reason = "ONNX_COMPAT_SHIM is set to %s: %s" % (asked, error.reason) if asked else error.reason
        return None, reason, "mend or unset it" if asked else error.hint
    passed = "; passed over: %s" % ", ".join(decision.passed) if decision.passed else ""
    return decision.name, decision.reason + passed, None


def _environment() -> Tuple[Dict[str, str], Dict[str, str]]:
    """What a report of a problem should say; and what to do about what nothing works without."""
    environment = {"Python": platform.python_version(), "on": "%s %s" % (platform.system(), platform.machine())}
    broken = {}
    for name in ("onnx", "numpy"):
        try:
            environment[name] = __import__(name).__version__
        except Exception as error:  # noqa: BLE001 (a package that does not fit the others may raise anything)
            text = (str(error).strip().splitlines() or [""])[0]
            environment[name] = "that cannot be imported (%s: %s)" % (type(error).__name__, text)
            broken[name] = "pip install --force-reinstall onnx-compat %s brings those that fit each other" % name
    environment["at"] = sys.prefix
    return environment, broken


def _feature(name: str, value: Any) -> str:
    """`f16`, `no f16` or `converter=direct`."""
    if isinstance(value, bool):
        return name if value else "no " + name
    return "%s=%s" % (name, value)


def _fields(info: Any) -> Dict[str, Any]:
    names = ("name", "available", "selected", "reason", "hint", "framework", "version")
    return dict({name: getattr(info, name) for name in names}, features=dict(info.features))

"""`onnx-compat doctor`: list the shims, which of them works and is selected, and how to repair or get the others."""

import os
import platform
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from onnx_compat.cli import doctor_extra, options
from onnx_compat.cli.exit_codes import ENVIRONMENT, OK
from onnx_compat.cli.output import Cell, emit, emit_json, table
from onnx_compat.cli.progress import working

if TYPE_CHECKING:
    from onnx_compat.discovery.selection import ShimInfo

__all__ = ["doctor"]


@click.command()
@click.option(
    "--extra",
    "extras",
    multiple=True,
    callback=doctor_extra.extras,
    metavar="NAME",
    help="Say whether this Python can install onnx-compat[NAME]. Repeatable.",
)
@options.machine
@click.pass_obj
def doctor(settings: options.Settings, extras: "Tuple[doctor_extra.ExtraReport, ...]") -> int:
    """List the shims: whether each works and why, the features of its framework, and which shim is selected.

    A table then lists what can be done here, and what to do for the rest.

    Each shim is probed in a separate process: a broken shim does not affect the others.
    """
    environment, broken = _read_environment()
    selected: Optional[str] = None
    decision, shims, absent, abilities = "numpy cannot be imported", [], [], []
    if "numpy" not in broken:
        from onnx_compat.cli.doctor_abilities import list_abilities
        from onnx_compat.discovery.missing_shims import missing_shims

        with working("Probing the shims"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tables below report the same
            shims = _probe_shims()
            selected, decision, remedy = _decide()
            absent = missing_shims()
            abilities = list_abilities(shims)
        if remedy:
            broken["ONNX_COMPAT_SHIM"] = remedy
    ok = selected is not None and not broken and all(report.available for report in extras)
    if settings.json:
        emit_json(
            {
                "ok": ok,
                "selected": selected,
                "decision": decision,
                "environment": environment,
                "shims": [_shim_fields(info) for info in shims],
                "absent": [shim._asdict() for shim in absent],
                "extras": [report._asdict() for report in extras],
                "abilities": [ability._asdict() for ability in abilities],
                "to do": broken,
            }
        )
        return OK if ok else ENVIRONMENT
    emit(", ".join("%s %s" % item for item in environment.items()))
    if shims:
        _show_shims(shims, selected)
    for shim in absent:
        emit("%s: %s" % (shim.name, shim.reason) + ("\n  hint: %s" % shim.hint if shim.hint else ""))
    if abilities:
        table(
            ("task", "here", "with", "to make it possible"),
            [[a.task, Cell.verdict("yes" if a.possible else "no", a.possible), a.by, a.hint or ""] for a in abilities],
        )
    for report in extras:
        emit("onnx-compat[%s]: %s\n  hint: %s" % (report.name, report.reason, report.hint))
    for name, remedy in broken.items():
        emit("%s: hint: %s" % (name, remedy))
    emit("selected: %s (%s)" % (selected or "none", decision))
    return OK if ok else ENVIRONMENT


def _probe_shims() -> "List[ShimInfo]":
    """Probe every installed shim, each in a child process and up to four at once. Return a ShimInfo for each shim.

    The list is that of `onnx_compat.shims()`: the reference is last. The outcomes are stored for later calls. The
    reference is probed in this process. If no child process can be started, all shims are probed in this process.
    """
    import onnx_compat
    from onnx_compat.discovery import child_probe, environment, selection

    names = list(selection.installed_shims())
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        outcomes = pool.map(lambda name: child_probe.probe_in_child(name, environment.MODULES.get(name, ())), names)
        for name, outcome in zip(names, outcomes):
            if outcome is not None:
                selection.store_probe(name, outcome)
    return onnx_compat.shims()


def _show_shims(shims: "Sequence[ShimInfo]", selected: Optional[str]) -> None:
    """Print the table of shims, with a * at the shim named `selected`.

    Below the table, print the known features of each shim that works, and the hint for each shim that does not work.
    """
    table(
        ("", "shim", "works", "framework", "reason"),
        [
            ["*" if info.name == selected else "", info.name, Cell.verdict("yes" if info.available else "no", info.available),
             " ".join(filter(None, (info.framework, info.version))), info.reason]
            for info in shims
        ],
    )  # fmt: skip
    for info in shims:
        if info.available and info.features:
            emit(
                "%s: features: %s"
                % (info.name, ", ".join(_format_feature(name, value) for name, value in info.features.items()))
            )
        elif info.hint:
            emit("%s: hint: %s" % (info.name, info.hint))


def _decide() -> Tuple[Optional[str], str, Optional[str]]:
    """Return (the name of the selected shim, why it is selected and which shims are passed over, None).

    If the selection fails, because the shim that ONNX_COMPAT_SHIM requests does not work: (None, the reason, what to
    do). Without advice on what to do, the last item is None.
    """
    from onnx_compat.discovery import selection
    from onnx_compat.errors import ShimError

    try:
        decision = selection.decide()
    except ShimError as error:
        requested = os.environ.get("ONNX_COMPAT_SHIM")
        reason = "ONNX_COMPAT_SHIM is set to %s: %s" % (requested, error.reason) if requested else error.reason
        return None, reason, "set it to a shim that works, or unset it" if requested else error.hint
    passed = "; passed over: %s" % ", ".join(decision.passed) if decision.passed else ""
    return decision.name, decision.reason + passed, None


def _read_environment() -> Tuple[Dict[str, str], Dict[str, str]]:
    """Return two dicts: facts on this environment (label -> text), and broken packages (package -> remedy).

    The labels are "Python", "on" (the platform), "onnx", "numpy" and "at" (the prefix). The text of a package is its
    version, or why the package cannot be imported. Broken packages are required packages that cannot be imported.
    """
    environment = {"Python": platform.python_version(), "on": "%s %s" % (platform.system(), platform.machine())}
    broken = {}
    for name in ("onnx", "numpy"):
        try:
            environment[name] = __import__(name).__version__
        except Exception as error:  # noqa: BLE001 (the import of a broken package may raise anything)
            text = (str(error).strip().splitlines() or [""])[0]
            environment[name] = "that cannot be imported (%s: %s)" % (type(error).__name__, text)
            broken[name] = "pip install --force-reinstall onnx-compat %s installs versions that work together" % name
    environment["at"] = sys.prefix
    return environment, broken


def _format_feature(name: str, value: object) -> str:
    """Format a feature of a framework: "f16" for True, "no f16" for False, "converter=direct" for any other value."""
    if isinstance(value, bool):
        return name if value else "no " + name
    return "%s=%s" % (name, value)


def _shim_fields(info: "ShimInfo") -> Dict[str, Any]:
    """Return the entry of a shim in the JSON document: the fields of ShimInfo, with the features as a dict."""
    names = ("name", "available", "selected", "reason", "hint", "framework", "version")
    return dict({name: getattr(info, name) for name in names}, features=dict(info.features))

"""The reference of the command line in docs/cli.md, rendered from the `--help` texts of the commands."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from matrix.render.text import replace

__all__ = ["BEGIN", "END", "files", "reference"]

BEGIN = "<!-- >>> rendered by `python -m matrix render`: edit onnx_compat/cli -->"
END = "<!-- <<< rendered -->"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)


def files(root: Path) -> dict[Path, str]:
    """Return {path of docs/cli.md: its text with the rendered reference}."""
    path = root / "docs" / "cli.md"
    return {path: replace(_BLOCK, "\n".join([BEGIN, *reference(), END]), path)}


def reference() -> list[str]:
    """Return the lines of the reference: for each command its usage, its description and a table of its options."""
    from onnx_compat.cli.app import cli
    from onnx_compat.cli.exit_codes import CODES

    lines = []
    for name, command in cli.commands.items():
        arguments = [_argument(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
        usage = f"onnx-compat {name} [OPTIONS] {' '.join(arguments)}".rstrip()
        lines += [
            f"### onnx-compat {name}",
            "",
            "```text",
            usage,
            "```",
            "",
            *_paragraphs(command.help or ""),
            "| option | meaning |",
            "|---|---|",
        ]
        lines += [_option(parameter) for parameter in command.params if parameter.param_type_name == "option"]
        lines.append("")
    lines += ["### Exit codes", "", "| code | meaning |", "|---|---|"]
    return lines + [f"| {code.number} | {code.meaning} |" for code in CODES]


def _argument(parameter: Any) -> str:
    """Return the name of an argument in the usage line: `NAME=FILE...`. click differs in this between versions."""
    name = parameter.metavar or parameter.name.upper()
    return f"{name}..." if parameter.nargs == -1 and not name.endswith(("...", "…")) else name


def _paragraphs(text: str) -> list[str]:
    """Return the lines of the paragraphs of a help text, wrapped at 118 characters, with an empty line after each
    paragraph.
    """
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    wrapped = (textwrap.wrap(paragraph, 118, break_on_hyphens=False) for paragraph in paragraphs)
    return [line for lines in wrapped for line in (*lines, "")]


def _option(parameter: Any) -> str:
    """Return the row of an option of click in the table: its names and value, its help text and its default."""
    choices = getattr(parameter.type, "choices", None)
    value = "{%s}" % ",".join(choices) if choices else parameter.metavar or parameter.type.name.upper()
    shown = ", ".join(parameter.opts) if parameter.is_flag else f"{', '.join(parameter.opts)} {value}"
    help_ = parameter.help.replace("|", r"\|") if parameter.help else ""
    default = f" Default: {parameter.default}." if getattr(parameter, "show_default", False) else ""
    return f"| `{shown}` | {help_}{default} |"

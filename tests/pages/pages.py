"""Run the code blocks of documentation pages: in page order, in a folder of their own.

`<!-- run: tflite ai_edge_litert -->` names the shim and the modules that the following block needs. As the first line of
a page it holds for every block of that page that has no marker of its own. `reference` is the core without a shim,
`any` is every environment that runs blocks of the page.

    python                  executed; all such blocks of a page share a namespace
    python title="name.py"  written to this file
    console                 commands after "$ ", executed by bash; the lines below must be the output, where "…" stands for
                            any text, and a line "…" for any lines. Without such lines, the output is not compared.
                            "# exit code 1" after a command is the code that it must end with
    sh                      not executed: `tests/matrix/test_pages.py` checks the names in it
"""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

__all__ = ["ROOT", "RUNNABLE", "Block", "blocks", "pages", "run"]

ROOT = Path(__file__).parents[2]
RUNNABLE = ("python", "console")
ANYWHERE = ("any",)
_FENCE = re.compile(
    r"(?:^<!-- run: (?P<needs>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_PAGE = re.compile(r"\A<!-- run: ([^\n]*?) -->\n")
_TITLE = re.compile(r'title="([^"]+)"')
_CODE = re.compile(r"# exit code (\d+)$")


class Block(NamedTuple):
    """A code block of a page: its language, text and markers."""

    language: str
    text: str
    line: int
    needs: Tuple[str, ...]  # the shim, then modules
    title: str  # the file that the block is written to


def pages() -> List[Path]:
    """Return the pages of the documentation: README, CONTRIBUTING and docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> List[Block]:
    """Return the code blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    first = _PAGE.match(content)
    common = first.group(1) if first else "reference"
    result = []
    for match in _FENCE.finditer(content):
        title = _TITLE.search(match["info"])
        indent = len(match["indent"])
        text = "".join(line[indent:] for line in match["text"].splitlines(keepends=True))
        line = content.count("\n", 0, match.start("text")) + 1
        needs = tuple((match["needs"] or common).split())
        result.append(Block(match["language"], text, line, needs, title.group(1) if title else ""))
    return result


def run(page: Path, folder: Path, here: Callable[[Tuple[str, ...]], bool]) -> int:
    """Run the blocks of a page in `folder` for which `here(needs)` is true. Return the number of blocks that ran."""
    environment = dict(os.environ, PATH=os.pathsep.join([str(_commands(folder)), os.environ.get("PATH", "")]))
    scope: Dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in blocks(page):
        if block.language not in RUNNABLE or not (block.needs == ANYWHERE or here(block.needs)):
            continue
        count += 1
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, scope)  # noqa: S102 (our own page)
        else:
            _run_console(page, block, folder, environment)
    return count


def _commands(folder: Path) -> Path:
    """Write the commands `onnx-compat` and `python` for this interpreter, and the model `digits.onnx`, to a folder."""
    commands = folder / ".bin"
    commands.mkdir()
    for name, arguments in (("onnx-compat", "-m onnx_compat.cli"), ("python", "")):
        script = commands / name
        script.write_text('#!/bin/sh\nexec "%s" %s "$@"\n' % (sys.executable, arguments), encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    maker = str(ROOT / "examples" / "make_model.py")
    subprocess.run([sys.executable, maker, "digits.onnx"], cwd=str(folder), check=True, stdout=subprocess.DEVNULL)
    (folder / "examples").symlink_to(ROOT / "examples")
    return commands


def _run_console(page: Path, block: Block, folder: Path, environment: Dict[str, str]) -> None:
    for command, expected in _commands_of(block.text):
        code = _CODE.search(command)
        process = subprocess.run(
            ["bash", "-c", command],
            cwd=str(folder),
            env=environment,
            capture_output=True,
            check=False,
        )
        output, errors = process.stdout.decode("utf-8"), process.stderr.decode("utf-8", "replace")
        where = "%s, line %d: %s" % (page.name, block.line, command)
        assert process.returncode == (int(code.group(1)) if code else 0), "%s\n%s%s" % (where, output, errors)
        if expected:
            assert _matches(expected, output), "%s\nexpected:\n%s\nprinted:\n%s" % (where, "\n".join(expected), output)


def _commands_of(text: str) -> List[Tuple[str, List[str]]]:
    commands: List[Tuple[str, List[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands and commands[-1][0].endswith("\\"):
            commands[-1] = (commands[-1][0] + "\n" + line, commands[-1][1])
        else:
            assert commands, "a console block begins with a command"
            commands[-1][1].append(line)
    return commands


def _matches(expected: List[str], output: str) -> bool:
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            words = " ".join(line.split()).split("…")  # how wide a column is depends on what else is in it
            pattern += ".*".join(re.escape(word) for word in words) + r"\n"
    printed = "".join(" ".join(line.split()) + "\n" for line in output.splitlines())
    return re.fullmatch(pattern, printed) is not None

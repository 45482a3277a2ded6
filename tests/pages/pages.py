"""Run the code blocks of documentation pages: in page order, in a folder of their own.

`<!-- run: tflite ai_edge_litert -->` names the shim and the modules that the following block needs. As the first line of
a page it holds for every block of that page that has no marker of its own. `reference` is the core without a shim,
`any` is every environment that runs blocks of the page. `e2e` is a virtual environment that pip fills: tests/e2e has it.

    python                  executed; all such blocks of a page share a namespace
    python title="name.py"  written to this file; other languages with a title too
    console                 commands after "$ ", executed by bash; the lines below must be the output, where "…" stands for
                            any text, and a line "…" for any lines. Without such lines, the output is not compared.
                            "# exit code 1" after a command is the code that it must end with
    sh                      as console, without the "$ " and without output: for commands that a reader copies

`<!-- not run: REASON -->` marks a block that is not executed. REASON is a key of NOT_RUN, whose value is the test that checks
what a machine can check of it. Any other block, outside of rendered sections, fails in `tests/matrix/test_pages.py`.
"""

import os
import re
import stat
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

__all__ = ["NOT_RUN", "RENDERED", "ROOT", "Block", "blocks", "pages", "run"]

ROOT = Path(__file__).parents[2]
NOT_RUN = {
    "starts sessions of nox": "tests/matrix/test_commands.py",
    "writes files of the repository": "tests/matrix/test_commands.py",
    "needs Docker": "tests/shims/test_tensorflow_serving.py",
    "needs PyTorch and onnxscript": "tests/matrix/test_torch_export_page.py",
    "needs a GPU": "tests/matrix/test_devices.py",
    "needs Android": "tests/matrix/test_phone_page.py",
    "needs iOS": "tests/matrix/test_phone_page.py",
    "a diagram": "",
}
RENDERED = re.compile(r"^<!-- >>> rendered .*?^<!-- <<< rendered -->$", re.MULTILINE | re.DOTALL)
_LANGUAGES = ("python", "console", "sh")
_ANYWHERE = ("any",)
_FENCE = re.compile(
    r"(?:^<!-- (?P<verb>run|not run): (?P<needs>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
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
    needs: Tuple[str, ...]  # the shim, then modules; empty if it is not executed
    title: str  # the file that the block is written to
    reason: str  # why it is not executed
    rendered: bool  # whether it is in a section that is rendered by code

    @property
    def runnable(self) -> bool:
        """Whether the block is executed, or written to a file that other blocks use."""
        return not self.reason and (self.language in _LANGUAGES or bool(self.title))


def pages() -> List[Path]:
    """Return the pages of the documentation: README, CONTRIBUTING and docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> List[Block]:
    """Return the code blocks of a page, in order."""
    content = page.read_text(encoding="utf-8")
    first = _PAGE.match(content)
    common = first.group(1) if first else "reference"
    rendered = [section.span() for section in RENDERED.finditer(content)]
    result = []
    for match in _FENCE.finditer(content):
        title = _TITLE.search(match["info"])
        indent = len(match["indent"])
        text = "".join(line[indent:] for line in match["text"].splitlines(keepends=True))
        line = content.count("\n", 0, match.start("text")) + 1
        reason = match["needs"] if match["verb"] == "not run" else ""
        needs = () if reason else tuple((match["needs"] or common).split())
        inside = any(start < match.start() < end for start, end in rendered)
        result.append(Block(match["language"], text, line, needs, title.group(1) if title else "", reason, inside))
    return result


def run(page: Path, folder: Path, here: Callable[[Tuple[str, ...]], bool], commands: Optional[Path] = None) -> int:
    """Execute the blocks of a page in `folder`, if `here` accepts their needs; return how many were executed.

    The commands `onnx-compat` and `python` are those of `commands`; by default those of this interpreter.
    """
    _write_examples(folder)
    commands = commands or _write_commands(folder)
    environment = dict(os.environ, PATH=os.pathsep.join([str(commands), os.environ.get("PATH", "")]))
    scope: Dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in blocks(page):
        if not block.runnable or not (block.needs == _ANYWHERE or here(block.needs)):
            continue
        count += 1
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, scope)  # noqa: S102 (our own page)
        else:
            _run_commands(page, block, folder, environment)
    return count


def _write_examples(folder: Path) -> None:
    """Write the model `digits.onnx`, and link the folder `examples`."""
    (folder / "digits.onnx").write_bytes(_make_model())
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")


@lru_cache(maxsize=1)
def _make_model() -> bytes:
    """Return the model that `examples/make_model.py` writes. The script runs once for all pages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        command = [sys.executable, str(ROOT / "examples" / "make_model.py"), str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return path.read_bytes()


def _write_commands(folder: Path) -> Path:
    """Write the commands `onnx-compat` and `python` for this interpreter to a folder."""
    commands = folder / ".bin"
    commands.mkdir()
    for name, arguments in (("onnx-compat", "-m onnx_compat"), ("python", "")):
        script = commands / name
        script.write_text('#!/bin/sh\nexec "%s" %s "$@"\n' % (sys.executable, arguments), encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return commands


def _run_commands(page: Path, block: Block, folder: Path, environment: Dict[str, str]) -> None:
    commands = [(block.text, [])] if block.language == "sh" else _commands_of(block.text)
    for command, expected in commands:
        code = _CODE.search(command)
        process = subprocess.run(
            ["bash", "-e", "-c", command],
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

"""Commands of the pages that no test starts: their sessions, cells, files and options exist, by the tools themselves."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from configparser import ConfigParser
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import pages as documentation

from matrix import trial
from matrix.__main__ import main, make_parser
from matrix.data import ROOT, load
from matrix.fuzz.__main__ import make_parser as make_parser_of_fuzz
from matrix.peers.__main__ import make_parser as make_parser_of_peers
from matrix.real.catalog import load_networks
from matrix.retarget.__main__ import make_parser as make_parser_of_retarget
from matrix.run.__main__ import make_parser as make_parser_of_run
from matrix.run.__main__ import split
from matrix.run.choose import choose
from matrix.simplified.__main__ import make_parser as make_parser_of_simplify
from onnx_compat.cli.app import cli

MATRIX = load()
REASONS = [reason for reason, test in documentation.NOT_RUN.items() if Path(test).name == Path(__file__).name]
# Commands that write nothing are executed here.
READING = (["list"], ["check"])
INSTALLS = ("python3 -m venv .venv", ".venv/bin/python -m pip install nox uv")
_COMMAND = re.compile(r"`((?:nox|tox|python -m matrix|onnx-compat) [^`]+)`")


def commands_of(page: Path) -> list[str]:
    """Return the commands of the blocks that are not run, and those in the text of a page."""
    commands = []
    for block in documentation.blocks(page):
        if block.reason in REASONS:
            lines = block.text.replace("\\\n", " ").splitlines()
            commands += [command.strip() for line in lines for command in line.partition(" #")[0].split(" && ")]
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    commands += [" ".join(command.split()) for command in _COMMAND.findall(text)]
    return [command.replace("[", "").replace("]", "") for command in commands if command]


COMMANDS = sorted({command for page in documentation.pages() for command in commands_of(page)} - {*INSTALLS})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_accepted_by_its_tool(command: str) -> None:
    name, *arguments = shlex.split(command)
    if name in ("nox", ".venv/bin/nox"):
        check_nox(arguments)
    elif name == "tox":
        check_tox(arguments)
    elif command.startswith("python -m matrix "):
        check_matrix(arguments[2:])
    elif name == "onnx-compat":
        check_onnx_compat(arguments)
    else:
        assert os.access(ROOT / command, os.X_OK), "a command that has no check: extend this test"


def test_the_test_command_of_the_readme_is_run_by_the_gate() -> None:
    """`.ci/run` takes the line from the README, and runs it."""
    (line,) = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if "nox -s core" in line]
    assert line.split(" && ")[:2] == [*INSTALLS]
    assert "grep -m1 'nox -s core' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    [
        "nox -s cores",
        "nox -t gat",
        'nox -s "cell(tf2-9.9.9-py313)"',
        "nox -s core -- tests/gone -k name",
        "nox -s core -- --no-such-option",
        "nox -s matrix -- --tier hourly",
        "nox -s branches -- tf2-99",
        "nox -s fuzz -- --hours 1",
        'nox -s "peer(onnx2tf)" -- --each 4',
        "tox -e tf2-9.9.9-py313",
        "python -m matrix adds tf2 2.22.0",
        "onnx-compat convert MODEL --portables",
        ".ci/runs",
    ],
)
def test_a_wrong_command_is_found(command: str) -> None:
    with pytest.raises((AssertionError, SystemExit, trial.MatrixError)):
        test_a_command_is_accepted_by_its_tool(command)


def check_nox(arguments: list[str]) -> None:
    """Let nox select the sessions, and parse the arguments after `--` as the sessions do."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    selection, rest = arguments[:end], arguments[end + 1 :]
    if any("<" in word or "..." in word for word in selection):
        assert selection in (["-s", "cell(<cell>)"], ["-s", "cell(...)"])
        return
    if selection != ["-l"]:
        assert select(tuple(selection)), "no session is selected"
    session = selection[-1] if selection else ""
    if session == "matrix":
        own, tests = split(rest)
        options = make_parser_of_run().parse_args(own)
        assert choose(MATRIX, options.cells, options.tier, options.shim, options.runner)
        check_pytest(tests)
    elif session == "branches":
        assert rest == ["<branch>"] or trial.trials(MATRIX, ROOT / "dist", rest)
    elif session.startswith("peer("):
        make_parser_of_peers().parse_args(["onnx2tf", "--release=1.23.2", *rest])
    elif session == "fuzz":
        make_parser_of_fuzz().parse_args([word.replace("--cell", "--python") for word in rest])
    elif session == "retarget":
        make_parser_of_retarget().parse_args(rest)
    elif session == "simplify":
        make_parser_of_simplify().parse_args(rest)
    elif session in ("mutation", "real", "bench"):
        assert set(rest) <= names_of(session), rest
    else:
        check_pytest(rest)


@cache
def select(selection: tuple[str, ...]) -> list[str]:
    """Return the lines of the sessions that nox would run."""
    command = [sys.executable, "-m", "nox", "--list", *selection]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return [line for line in process.stdout.splitlines() if line.startswith("* ")]


def names_of(session: str) -> set[str]:
    """Return what may stand after `--` in the pages' commands."""
    if session == "mutation":
        paths = (ROOT / "onnx_compat").rglob("*.py")
        return {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
    if session == "real":
        return {network.name for network in load_networks()}
    source = (ROOT / "benchmarks" / "command.py").read_text(encoding="utf-8")
    strings = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    return {str(string) for string in strings}


def check_pytest(arguments: list[str]) -> None:
    """Let pytest parse the arguments. It collects nothing with `--markers`."""
    paths = [word for word in arguments if "/" in word and not word.startswith("/path/to/")]
    assert [path for path in paths if not (ROOT / path.partition("::")[0]).exists()] == []
    if any(word.startswith("--") for word in arguments):
        env = {**os.environ, "ONNX_COMPAT_SHIM": "reference"}
        command = [sys.executable, "-m", "pytest", "--markers", *arguments]
        process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr


def check_tox(arguments: list[str]) -> None:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini", encoding="utf-8")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for option, name in pairwise(arguments[:end]):
        if option == "-e":
            assert f"testenv:{name}" in config
        if option == "-m":
            assert re.search(rf"^{name} = ", config["tox"]["labels"], re.MULTILINE)
    assert arguments[0] in ("-e", "-m", "list")
    check_pytest(arguments[end + 1 :])


def check_matrix(arguments: list[str]) -> None:
    if arguments in READING:
        assert main(arguments) == 0
    elif arguments != ["record"]:  # in the text, where it is named without its files
        options = make_parser().parse_args(arguments)
        unknown = {name for name in getattr(options, "ids", []) if "<" not in name} - set(MATRIX.environments)
        assert not unknown


def check_onnx_compat(arguments: list[str]) -> None:
    """Check the subcommand and the options; arguments in capitals stand for those of a user."""
    if arguments == ["COMMAND", "--help"]:
        return
    command = cli.commands[arguments[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= known

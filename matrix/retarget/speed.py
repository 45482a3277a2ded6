"""The row `speed`: the time and the memory of a conversion, beside reading and writing the file and beside other tools."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

import onnx

from matrix.data import ROOT
from matrix.retarget import generated
from matrix.retarget.outcomes import MEMORY_AIM, OURS, READ_WRITE, TIME_AIM, UNVERIFIED
from matrix.retarget.result import Entry, Result
from matrix.retarget.tool_run import TOOLS

__all__ = ["ROUNDS", "check_entry", "line", "measure", "run_tool"]

ROUNDS = 3
"""Each tool runs so often, in turn. The fastest run counts: other processes disturb it least."""
LARGEST = "weights of 1 GB"
SECONDS = 600


def measure(options: argparse.Namespace) -> Result:
    """Convert the generated networks with each tool, in turn. Return an entry for each network."""
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.onnx"
        onnx.save(generated.bert(1, 16, 2, 8), str(small))
        for name in generated.MODELS:
            if options.case not in name:
                continue
            source = Path(folder) / "source.onnx"
            generated.write(name, source)
            entry = measure_model(source, small, 1 if name == LARGEST else ROUNDS)
            result.entries[name] = entry
            result.misses += check_entry(name, entry)
            print(*line(name, entry), sep="\n", flush=True)
    return result


def measure_model(source: Path, small: Path, rounds: int) -> Entry:
    """Run each tool `rounds` times on a model. Return the size of the model in bytes, and the figures of each tool.

    The figures are the least seconds and the least peak memory in bytes, or the reason of a failure. `small`: the path
    of a model that each tool converts before, so that its imports do not count.
    """
    tools: Dict[str, Dict[str, Any]] = {}
    for _ in range(rounds):
        for tool in TOOLS:
            run = run_tool(tool, source, small)
            best = tools.setdefault(tool, run)
            if "seconds" in run and "seconds" in best:
                best.update({key: min(best[key], run[key]) for key in run})
    return {"bytes": source.stat().st_size, "tools": tools}


def run_tool(tool: str, source: Path, small: Path) -> Dict[str, Any]:
    """Run a tool in a process of its own. Return {"seconds", "peak": bytes}, or {"failed": reason}.

    `small`: the path of a model that the tool converts first, so that its imports do not count.
    """
    target = source.with_name("target.onnx")
    command = [sys.executable, "-m", "matrix.retarget.tool_run", tool, str(source), str(target), str(small)]
    try:
        done = subprocess.run(command, cwd=str(ROOT), capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": "not done after %d seconds" % SECONDS}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"failed": "exit code %d: %s" % (done.returncode, lines[-1][:200] if lines else "")}
    answer = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": round(min(answer["seconds"]), 4), "peak": answer["peak"]}


def check_entry(name: str, entry: Entry) -> List[str]:
    """Return a text for each aim that this project misses on the model `name`.

    If a tool that the aims need has failed, the only text says so.
    """
    tools, misses = entry["tools"], []
    for tool in (READ_WRITE, UNVERIFIED, OURS):
        if "failed" in tools[tool]:
            return ["%s: %s: %s" % (name, tool, tools[tool]["failed"])]
    if name == LARGEST:
        ratio = tools[OURS]["peak"] / entry["bytes"]
        if ratio > MEMORY_AIM:
            misses.append("%s: peak memory of %.2f times its size" % (name, ratio))
    elif tools[UNVERIFIED]["seconds"] > TIME_AIM * tools[READ_WRITE]["seconds"]:
        ratio = tools[UNVERIFIED]["seconds"] / tools[READ_WRITE]["seconds"]
        misses.append("%s: %.2f times the time to read and write it" % (name, ratio))
    return misses


def line(name: str, entry: Entry) -> List[str]:
    """Return the lines of text for the model `name`: its size, then a line for each tool."""
    lines = ["%s, %.0f MB" % (name, entry["bytes"] / 1e6)]
    base = entry["tools"][READ_WRITE].get("seconds")
    for tool, figures in entry["tools"].items():
        if "failed" in figures:
            lines.append("  %-26s %s" % (tool, figures["failed"]))
        else:
            ratio = figures["seconds"] / base if base else float("nan")
            text = "  %-26s %8.3f s (%.2f), peak %.2f times the size"
            lines.append(text % (tool, figures["seconds"], ratio, figures["peak"] / entry["bytes"]))
    return lines

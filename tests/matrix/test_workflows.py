"""Workflows of the CI service: pinned actions, the job that a branch protection names, and the sessions that must run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from matrix.branches import branches
from matrix.data import ROOT, load
from matrix.render.ci import GPU_CRON

MATRIX = load()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEST = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
SHIMS_OF_FRAMEWORKS = {"tf1", "tf2", "tflite", "keras"}
_USES = re.compile(r"^\s*(?:- )?uses: (\S+)(.*)$", re.MULTILINE)


def jobs_of(text: str) -> dict[str, str]:
    """Return job -> its text."""
    parts = re.split(r"^  ([\w-]+):$", text.partition("\njobs:\n")[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned_to_a_commit_and_names_its_tag(path: Path) -> None:
    uses = _USES.findall(path.read_text(encoding="utf-8"))
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_the_policy_of_zizmor_has_no_exception() -> None:
    policies = (ROOT / ".github" / "zizmor.yml").read_text(encoding="utf-8")
    assert re.findall(r'"(\S+)": (\S+)', policies) == [("*", "hash-pin")]


def test_a_commit_has_one_tag() -> None:
    tags: dict[str, set[str]] = {}
    for action in set(MATRIX.ci.actions.values()):
        digest, _, tag = action.partition("@")[2].partition(" # ")
        tags.setdefault(digest, set()).add(tag)
    assert all(len(names) == 1 for names in tags.values())


def test_the_required_job_waits_for_every_job_that_can_fail_a_change() -> None:
    jobs = jobs_of(TEST)
    (needs,) = re.findall(r"^    needs: \[(.*)\]$", jobs["required"], re.MULTILINE)
    after_the_cells = {"required", "scoreboard", "publish"}
    assert set(needs.split(", ")) == set(jobs) - after_the_cells
    assert "if: ${{ always() &&" in jobs["required"]


@dataclass(frozen=True)
class Event:
    """An event of the service: what starts a run."""

    event_name: str
    schedule: str = ""
    has_gpu: bool = False

    def value(self, expression: str) -> Any:
        """Return the value of an expression of a workflow, the text in `${{ }}`, for this event."""
        for spelling, python in {"&&": " and ", "||": " or ", "always()": "True", "!cancelled()": "True"}.items():
            expression = expression.replace(spelling, python)
        settings = SimpleNamespace(GPU_RUNNER=str(self.has_gpu).lower())
        return eval(expression, {"github": SimpleNamespace(event=self, event_name=self.event_name), "vars": settings})  # noqa: S307 (our own file)

    def starts(self, job: str) -> bool:
        """Whether this event starts a job: its own condition, and the jobs that it needs."""
        text = jobs_of(TEST)[job]
        (condition,) = re.findall(r"^    if: \$\{\{ (.*) \}\}$", text, re.MULTILINE) or ["True"]
        needed = re.findall(r"^    needs: \[?([\w, -]+)\]?$", text, re.MULTILINE)
        waits = "always()" not in condition and needed
        return bool(self.value(condition)) and (not waits or all(map(self.starts, needed[0].split(", "))))


NIGHTLY = re.findall(r'- cron: "(.*?)"', TEST)[0]
EVENTS = [
    Event("push"),
    Event("pull_request"),
    Event("workflow_dispatch"),
    Event("schedule", NIGHTLY),
    Event("schedule", GPU_CRON, has_gpu=True),
]


def judge(event: Event, results: dict[str, str]) -> int:
    """Return the exit code of the job `required` for results of the jobs that it needs."""
    job = jobs_of(TEST)["required"]
    (expression,) = re.findall(r"MAY_SKIP: \$\{\{ (.*) \}\}", job)
    script = textwrap.dedent(job.partition("        run: |\n")[2].partition("\n\n")[0])
    variables = {
        **os.environ,
        "JOBS": json.dumps({name: {"result": result} for name, result in results.items()}),
        "MAY_SKIP": event.value(expression),
    }
    return subprocess.run([sys.executable, "-c", script], env=variables, check=False, capture_output=True).returncode


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event.event_name} {event.schedule}")
def test_the_required_job_accepts_a_skipped_job_only_where_its_event_does_not_start_it(event: Event) -> None:
    (needs,) = re.findall(r"^    needs: \[(.*)\]$", jobs_of(TEST)["required"], re.MULTILINE)
    expected = {name: "success" if event.starts(name) else "skipped" for name in needs.split(", ")}
    assert event.starts("required") and judge(event, expected) == 0
    for name, result in expected.items():
        for bad_result in ("failure", "cancelled", *(["skipped"] if result == "success" else [])):
            assert judge(event, {**expected, name: bad_result}) == 1, (name, bad_result)


def test_without_a_machine_the_weekly_run_of_the_gpu_starts_nothing() -> None:
    event = Event("schedule", GPU_CRON)
    jobs = set(jobs_of(TEST)) - {"scoreboard", "publish"}  # these two wait for `plan` to succeed
    assert [job for job in jobs if event.starts(job)] == []


def test_a_change_tries_the_branches_of_the_cells_of_the_gate() -> None:
    (command,) = re.findall(r"- run: nox -s branches -- (.*)", jobs_of(TEST)["gate-branches"])
    gate = {cell.branch for cell in MATRIX.cells.values() if cell.tier == "gate" and cell.branch}
    assert set(command.split()) == gate and {branches(MATRIX)[name].shim for name in gate} >= SHIMS_OF_FRAMEWORKS
    assert all(event.starts("gate-branches") for event in EVENTS if event.schedule != GPU_CRON)


def test_branches_and_the_scoreboard_in_a_browser_run_in_the_service() -> None:
    jobs = jobs_of(TEST)
    assert "branches" in MATRIX.ci.whole and '"branches"' in jobs["whole"]
    assert "nox -s scoreboard" in jobs["browser"] and "playwright install --with-deps chromium" in jobs["browser"]


def test_the_cells_of_a_gpu_run_each_week() -> None:
    assert f'- cron: "{GPU_CRON}"' in TEST and re.fullmatch(r"\d+ \d+ \* \* \d", GPU_CRON)
    plan = jobs_of(TEST)["plan"]
    assert f"github.event.schedule == '{GPU_CRON}' && 'gpu'" in plan
    assert "vars.GPU_RUNNER == 'true'" in plan, "without a machine, the jobs would wait for a day and fail"


def test_new_versions_are_proposed_each_week() -> None:
    text = (ROOT / ".github" / "workflows" / "versions.yml").read_text(encoding="utf-8")
    assert "python -m matrix outdated --markdown" in text
    assert re.search(r'- cron: "\d+ \d+ \* \* \d"', text)


def test_renovate_finds_each_pin_that_it_shall_raise() -> None:
    settings = json.loads((ROOT / ".github" / "renovate.json").read_text(encoding="utf-8"))
    text = (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8")
    actions, tools = settings["customManagers"]

    def pattern_of(expression: str) -> re.Pattern[str]:
        return re.compile(expression.replace("(?<", "(?P<"))  # JavaScript writes named groups without the P

    matches = {match[0].strip('"') for match in pattern_of(actions["matchStrings"][0]).finditer(text)}
    assert matches == set(MATRIX.ci.actions.values())
    section, pin = map(pattern_of, tools["matchStrings"])
    pinned = {f"{m['depName']}=={m['currentValue']}" for m in pin.finditer(section.search(text)[0])}  # type: ignore[index]  # it matches
    exact = {
        re.sub(r"\[.*\]", "", tool) for group in MATRIX.tools.values() for tool in group if "==" in tool.split(";")[0]
    }
    assert pinned == exact

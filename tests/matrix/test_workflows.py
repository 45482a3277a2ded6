"""Workflows of the CI service: pinned actions, the job that a branch protection names, and the sessions that must run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from matrix.data import ROOT, load
from matrix.render.ci import GPU_CRON

MATRIX = load()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEST = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
UNPINNED = {"pypa/gh-action-pypi-publish@release/v1"}
"""Its stored mirror ends at v1.8.14 of 2024, which refuses the metadata of today's sdists, and no tag after that could be
resolved to a commit. Pin it once the commit of a newer tag is known."""
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
        if action not in UNPINNED:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_each_exception_is_used_and_is_the_policy_of_zizmor() -> None:
    unpinned = {action for action in MATRIX.ci.actions.values() if not re.search(r"@[0-9a-f]{40} # v", action)}
    assert unpinned == UNPINNED
    policies = (ROOT / ".github" / "zizmor.yml").read_text(encoding="utf-8")
    assert '"*": hash-pin' in policies
    assert re.findall(r'"([\w./-]+)": ref-pin', policies) == [action.partition("@")[0] for action in UNPINNED]


def test_a_commit_has_one_tag() -> None:
    tags: dict[str, set[str]] = {}
    for action in set(MATRIX.ci.actions.values()) - UNPINNED:
        digest, _, tag = action.partition("@")[2].partition(" # ")
        tags.setdefault(digest, set()).add(tag)
    assert all(len(names) == 1 for names in tags.values())


def test_the_required_job_waits_for_every_job_that_can_fail_a_change() -> None:
    jobs = jobs_of(TEST)
    (needs,) = re.findall(r"^    needs: \[(.*)\]$", jobs["required"], re.MULTILINE)
    after_the_cells = {"required", "scoreboard", "publish"}
    assert set(needs.split(", ")) == set(jobs) - after_the_cells
    assert "if: ${{ always() }}" in jobs["required"]


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
    assert matches == set(MATRIX.ci.actions.values()) - UNPINNED
    section, pin = map(pattern_of, tools["matchStrings"])
    pinned = {f"{m['depName']}=={m['currentValue']}" for m in pin.finditer(section.search(text)[0])}  # type: ignore[index]  # it matches
    exact = {
        re.sub(r"\[.*\]", "", tool) for group in MATRIX.tools.values() for tool in group if "==" in tool.split(";")[0]
    }
    assert pinned == exact

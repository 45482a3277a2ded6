"""The report of the branches that tests/core takes."""

from __future__ import annotations

import pytest

from matrix.branch_coverage import FLOOR, Branches, count_branches, report


def summary(total: int, covered: int) -> dict[str, dict[str, int]]:
    return {"summary": {"num_branches": total, "covered_branches": covered, "num_statements": 1000}}


def test_modules_without_branches_do_not_count() -> None:
    measured = {"files": {"a.py": summary(4, 3), "b.py": summary(0, 0)}}
    assert count_branches(measured) == [Branches("a.py", 4, 3)]


@pytest.mark.parametrize(("covered", "status"), [(FLOOR, 0), (FLOOR - 1, 1)])
def test_the_share_of_all_branches_decides(covered: int, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Branches("low.py", 10, 0), Branches("high.py", 90, covered)]) == status
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("low.py")
    assert any(line.split()[0] == f"{covered}.0" and line.endswith("all modules") for line in lines)
    assert any("Add tests" in line for line in lines) == bool(status)


def test_the_modules_with_the_most_missing_branches_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    report([Branches("whole.py", 9, 9), Branches("a.py", 100, 97), Branches("b.py", 4, 2), Branches("c.py", 4, 3)], 2)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["a.py", "b.py", "modules"]

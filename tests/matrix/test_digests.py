"""Compare the digests of .tflite files that two revisions write."""

from pathlib import Path

import pytest

from matrix.digests import differences, main, read

BEFORE = "node/1.0/test_abs\taa\nnode/1.0/test_add\tbb\nnode/1.0/test_exp@unknown-dims\tthe shim\trefuses it\n"


def test_a_changed_and_a_missing_case_are_listed() -> None:
    before, after = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"}
    assert differences(before, after) == ["b: 2 => 4", "d: missing => 5"]


def test_a_text_of_an_error_may_hold_tabs(tmp_path: Path) -> None:
    path = tmp_path / "before"
    path.write_text(BEFORE, encoding="utf-8")
    assert read(path)["node/1.0/test_exp@unknown-dims"] == "the shim\trefuses it"


@pytest.mark.parametrize(
    ("replaced", "code", "last"), [("bb", 0, "0 of 3 cases differ"), ("cc", 1, "1 of 3 cases differ")]
)
def test_compare_fails_if_a_case_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replaced: str, code: int, last: str
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(BEFORE, encoding="utf-8")
    after.write_text(BEFORE.replace("bb", replaced), encoding="utf-8")
    assert main(["compare", str(before), str(after)]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last

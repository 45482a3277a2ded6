"""The examples of docs/usage.md, run as they stand there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_examples_of_the_usage_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "usage.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 5
    scope: dict = {}
    for block in blocks:
        exec(compile(block, "docs/usage.md", "exec"), scope)  # noqa: S102 (our own page)

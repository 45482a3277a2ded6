"""Lock files: stored pins are kept, except those of packages that the cell itself pins."""

import subprocess
from pathlib import Path

import pytest

from matrix import lock
from matrix.data import Environment, MatrixError, load


def test_a_stored_pin_of_the_cell_rules_out_no_other_build(tmp_path, monkeypatch):
    (tmp_path / "matrix" / "constraints").mkdir(parents=True)
    monkeypatch.setattr("matrix.data.ROOT", tmp_path)
    monkeypatch.setattr(lock, "find", lambda python: "python" + python)
    monkeypatch.setattr(lock, "set_uv_find_links", lambda: None)
    environment = Environment("x-py311", "3.11", ("torch==2.13.0",))
    environment.constraints.write_text("numpy==2.4.6\ntorch==2.13.0\n", encoding="utf-8")

    def resolve(command, **options):
        output = Path(command[command.index("--output-file") + 1])
        assert output.read_text(encoding="utf-8") == "numpy==2.4.6\n"
        assert options["input"] == "torch==2.13.0"
        output.write_text("numpy==2.4.6\ntorch==2.13.0+cpu\n", encoding="utf-8")
        return subprocess.CompletedProcess(command, code, stderr="no such version")

    code = 1
    monkeypatch.setattr(lock.subprocess, "run", resolve)
    with pytest.raises(MatrixError, match="no such version"):
        lock.lock(load(), environment)
    assert environment.constraints.read_text(encoding="utf-8") == "numpy==2.4.6\ntorch==2.13.0\n", (
        "a failure changes nothing"
    )
    code = 0
    lock.lock(load(), environment)
    assert environment.constraints.read_text(encoding="utf-8") == "numpy==2.4.6\ntorch==2.13.0\n"

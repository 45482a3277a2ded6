"""Peak memory in bytes: `ru_maxrss` has another unit on macOS."""

import resource
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.child import memory


@pytest.mark.parametrize(("platform", "factor"), [("linux", 1024), ("darwin", 1)])
def test_the_unit_is_that_of_the_system(platform: str, factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {resource.RUSAGE_SELF: 3000, resource.RUSAGE_CHILDREN: 200}
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=peaks[who]))
    monkeypatch.setattr(memory.sys, "platform", platform)
    assert memory.largest_resident() == 3000 * factor
    assert memory.largest_resident(children=True) == 200 * factor


def test_the_peak_of_this_process_includes_an_array() -> None:
    assert memory.largest_resident() > np.ones(50_000_000, np.uint8).nbytes


def test_the_peak_of_a_child_includes_its_array() -> None:
    subprocess.run([sys.executable, "-c", "b'1' * 200_000_000"], check=True)
    assert memory.largest_resident(children=True) > 200_000_000

"""The schedule of cells, one or several at a time, with fake processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from matrix.data import Cell, load
from matrix.run import expect, machine
from matrix.run.outcome import End
from matrix.run.progress import Progress
from matrix.run.runner import Runner
from matrix.run.schedule import Running, schedule

CELLS = list(load().cells.values())[:5]


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Fake:
    """A fake process that ends after `seconds`; with `None` it never ends."""

    def __init__(self, clock: Clock, seconds: float | None, code: int = 0) -> None:
        self.clock, self.until, self.code, self.ended = clock, seconds, code, False
        self.since = clock()

    def poll(self) -> int | None:
        over = self.until is not None and self.clock() - self.since >= self.until
        return self.code if over and not self.ended else None

    def end(self) -> None:
        self.ended = True


class Machine:
    """Starts fake processes with given durations, and records the calls of `update`. Its clock is simulated."""

    def __init__(self, seconds: list[float | None], limit: float = 100, jobs: int = 1) -> None:
        self.clock, self.seconds, self.limit, self.jobs = (
            Clock(),
            dict(zip([c.id for c in CELLS], seconds)),
            limit,
            jobs,
        )
        self.cells = CELLS[: len(seconds)]
        self.processes: dict[str, Fake] = {}
        self.at_once = 0

    def start(self, cell: Cell) -> tuple[Fake, Progress]:
        self.processes[cell.id] = Fake(self.clock, self.seconds[cell.id])
        return self.processes[cell.id], Progress(Path("no such file"))

    def look(self, running: list[Running], waiting: list[Cell]) -> None:
        self.at_once = max(self.at_once, len(running))

    def run(self) -> Iterator[tuple[str, End]]:
        arguments = (self.cells, self.jobs, self.limit, self.start, self.look, self.clock, self.clock.sleep)
        for cell, _, end in schedule(*arguments):
            yield cell.id, end


def test_cells_run_one_after_the_other() -> None:
    machine = Machine([3, 2, 1])
    assert [id for id, _ in machine.run()] == [cell.id for cell in machine.cells]
    assert machine.clock() == 6
    assert machine.at_once == 1


def test_several_cells_at_once_are_yielded_in_the_order_of_their_ends() -> None:
    machine = Machine([3, 1, 1, 4], jobs=2)
    first, second, third, fourth = (cell.id for cell in machine.cells)
    assert [id for id, _ in machine.run()] == [second, third, first, fourth]
    assert machine.at_once == 2
    assert machine.clock() == 2 + 4


def test_a_cell_that_hangs_is_ended_and_the_others_continue() -> None:
    machine = Machine([None, 2], limit=60)
    (hung, end), (after, good) = machine.run()
    assert (hung, after) == tuple(cell.id for cell in machine.cells)
    assert end.code is None
    assert end.reason == "ended after 1 minutes, the limit of a cell"
    assert machine.processes[hung].ended
    assert good.code == 0


def test_a_cell_that_does_not_start_ends_with_a_reason() -> None:
    machine = Machine([1, 1])

    def start(cell: Cell) -> tuple[Fake, Progress]:
        if cell is CELLS[0]:
            raise FileNotFoundError("no nox")
        return machine.start(cell)

    iterator = schedule(machine.cells, 1, 10, start, machine.look, machine.clock, machine.clock.sleep)
    assert [(cell.id, end.code, end.reason) for cell, _, end in iterator] == [
        (CELLS[0].id, None, "no nox"),
        (CELLS[1].id, 0, ""),
    ]


def test_ending_the_run_ends_the_running_cells() -> None:
    machine = Machine([1, None, None], jobs=2)
    run = machine.run()
    next(run)
    run.close()
    assert machine.processes[CELLS[1].id].ended


@pytest.mark.parametrize(
    ("cells", "cores", "gigabytes", "planned"),
    [
        (71, 2, 24, (2, 1)),
        (71, 1, 24, (1, 1)),
        (71, 16, 64, (16, 1)),
        (71, 16, 16, (6, 1)),
        (71, 64, float("inf"), (64, 1)),
        (3, 16, 64, (3, 5)),
        (1, 16, 64, (1, 16)),
        (1, 16, 2, (1, 1)),
        (0, 2, 24, (1, 2)),
    ],
)
def test_cores_and_memory_limit_the_cells_at_once(
    cells: int, cores: int, gigabytes: float, planned: tuple[int, int]
) -> None:
    assert machine.plan(cells, None, cores, gigabytes) == machine.Plan(*planned)


def test_a_given_number_of_jobs_is_used() -> None:
    assert machine.plan(71, 4, 2, 24) == machine.Plan(4, 1)
    assert machine.plan(71, 1, 16, 64) == machine.Plan(1, 16)


def test_this_machine_has_a_core_and_some_memory() -> None:
    assert machine.cores() >= 1
    assert machine.memory() > 0.1


def test_the_estimate_of_a_cell_is_its_last_time_or_that_of_its_shim(tmp_path: Path) -> None:
    matrix = load()
    cells = [cell for cell in matrix.cells.values() if cell.shim in {"tflite", "tf2"}]
    lite, full = ([cell.id for cell in cells if cell.shim == shim] for shim in ("tflite", "tf2"))
    (tmp_path / f"{lite[0]}.json").write_text(json.dumps({"seconds": 100}), encoding="utf-8")
    seconds = expect.estimate_seconds(
        cells, {lite[0]: {"seconds": 5}, lite[1]: {"seconds": 300}, full[0]: {}}, tmp_path
    )
    assert [seconds[id] for id in lite[:3]] == [100, 300, 200]
    assert seconds[full[0]] == 200
    assert set(expect.estimate_seconds(cells, {}, tmp_path / "empty").values()) == {0}


def test_samples_of_cells_start_in_the_order_of_their_own_durations(tmp_path: Path) -> None:
    matrix = load()
    cells = [cell for cell in matrix.cells.values() if cell.tier == "gate"]
    shorter, longer = sorted(matrix.gate_seconds, key=matrix.gate_seconds.__getitem__)[:2]
    (tmp_path / f"{shorter}.json").write_text(json.dumps({"seconds": 1e6}), encoding="utf-8")
    orders = {}
    for tests in ([], ["--sample"]):
        waiting = Runner(matrix, cells, tests, "nox", 60, fresh=True, results=tmp_path).waiting()
        orders[len(tests)] = [cell.id for cell in waiting]
    assert orders[0][0] == shorter, "measured on this machine, as a whole"
    assert orders[1][-2:] == [longer, shorter]


def test_the_remaining_time_follows_from_the_tests_else_from_the_clock(tmp_path: Path) -> None:
    seconds = {CELLS[0].id: 100.0, CELLS[1].id: 60.0}
    progress = Progress(tmp_path / "tests")
    running = Running(CELLS[0], Fake(Clock(), None), progress, started=10)
    assert expect.estimate_remaining([running], [CELLS[1]], seconds, 1, now=30) == 80 + 60
    assert expect.estimate_remaining([running], [CELLS[1]], seconds, 2, now=200) == 30
    progress.path.write_text('{"tests": 4}\n' + _line("a") + _line("b", "failed") + _line("a") + '{"id": "c', "utf-8")
    progress.read()
    assert expect.estimate_remaining([running], [], seconds, 1, now=200) == 50
    assert (progress.missing, list(progress.failures)) == (2, ["b"])
    never = dict.fromkeys(seconds, 0.0)
    assert expect.estimate_remaining([running], [CELLS[1]], never, 1, now=210) == 200 + 400, (
        "200 s for half of the tests"
    )
    with progress.path.open("a", encoding="utf-8") as file:
        file.write(_line("c")[len('{"id": "c') :])
    progress.read()
    assert progress.missing == 1, "a line that was not whole before"


def _line(id: str, outcome: str = "passed") -> str:
    return json.dumps({"id": id, "outcome": outcome, "reason": ""}) + "\n"

"""GPU detection, with a fake driver, a fake nvidia-smi and fake frameworks: the state and its reason."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from packaging.version import Version

from matrix import cells, devices, frameworks
from matrix.data import ROOT, Cell, load

MATRIX = load()
CELL = MATRIX.cells["tf2-2.21.0-gpu-py313"]
NOTHING = {"names": [], "cuda": 0, "code": None, "error": "there is no driver (libcuda.so.1)"}
HERE = devices.Answer(devices.READY, names=("A card",), cuda=(12, 4))


class Cuda:
    """A fake CUDA library with the functions that matrix.devices calls."""

    def __init__(self, code=0, names=()):
        self.code, self.names = code, names

    def cuInit(self, flags):  # noqa: N802 (as the driver names it)
        return self.code

    def cuDriverGetVersion(self, version):  # noqa: N802 (as the driver names it)
        version._obj.value = 12040

    def cuDeviceGetCount(self, count):  # noqa: N802 (as the driver names it)
        count._obj.value = len(self.names)

    def cuDeviceGetName(self, name, size, k):  # noqa: N802 (as the driver names it)
        name.value = self.names[k].encode()

    def cuGetErrorName(self, code, text):  # noqa: N802 (as the driver names it)
        text._obj.value = {100: b"CUDA_ERROR_NO_DEVICE", 999: b"CUDA_ERROR_UNKNOWN"}.get(code)


@pytest.fixture
def machine(monkeypatch):
    """Return a function that installs a fake driver and a fake nvidia-smi with given answers."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(cuda=None, smi=()):
        monkeypatch.setattr(devices, "load_driver", lambda: cuda)
        monkeypatch.setattr(devices, "_list_gpus", lambda: list(smi))
        monkeypatch.setattr(devices, "_query", lambda queried: (devices.ask_driver(), ""))

    return make


@pytest.mark.parametrize(
    ("cuda", "smi", "state", "reason"),
    [
        (None, [], "no-gpu", "no GPU found: there is no driver"),
        (Cuda(100), [], "no-gpu", r"no GPU found: the driver says CUDA_ERROR_NO_DEVICE \(100\)"),
        (Cuda(), [], "no-gpu", "no GPU found: the driver sees no device"),
        (Cuda(34), [], "no-gpu", r"the driver says an error \(34\)"),
        (Cuda(999), [], "broken", r"the driver says CUDA_ERROR_UNKNOWN \(999\)"),
        (None, ["A card"], "broken", "nvidia-smi lists A card, but there is no driver"),
        (Cuda(100), ["A card"], "broken", "nvidia-smi lists A card, but the driver says CUDA_ERROR_NO_DEVICE"),
        (Cuda(names=["A card"]), ["A card"], "ready", "^$"),
        (Cuda(names=["A card"]), [], "ready", "^$"),
    ],
)
def test_the_states_of_the_driver(machine, cuda, smi, state, reason):
    machine(cuda, smi)
    answer = devices.query_driver()
    assert answer.state == state
    assert re.search(reason, answer.reason)


def test_the_names_and_the_version_of_the_driver(machine):
    machine(Cuda(names=["A card", "Another"]))
    assert devices.query_driver() == devices.Answer("ready", names=("A card", "Another"), cuda=(12, 4))


def test_hidden_devices_do_not_count(machine, monkeypatch):
    machine(Cuda(100), ["A card"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert devices.query_driver() == devices.Answer("no-gpu", "CUDA_VISIBLE_DEVICES=-1 hides A card")


def test_a_driver_that_gives_no_answer_is_broken(monkeypatch):
    monkeypatch.setattr(devices, "_list_gpus", list)
    monkeypatch.setattr(devices, "_query", lambda queried: (None, "did not answer in 300 seconds"))
    assert devices.query_driver() == devices.Answer("broken", "the driver of the GPU did not answer in 300 seconds")


def test_the_driver_of_this_machine_is_asked_in_a_process():
    answer, _ = devices._query("driver")
    assert answer is not None and set(answer) == set(NOTHING)


def test_a_process_that_dies_or_hangs_is_reported(monkeypatch):
    assert devices._query("no such framework")[0] is None
    assert "KeyError" in devices._query("no such framework")[1]
    monkeypatch.setattr(devices, "SECONDS", 0.001)
    assert devices._query("driver") == (None, "did not answer in 0 seconds")


def test_nvidia_smi_is_read(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho A card\necho Another\n", encoding="ascii")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert devices._list_gpus() == ["A card", "Another"]
    tool.write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n", encoding="ascii")
    assert devices._list_gpus() == []
    tool.unlink()
    assert devices._list_gpus() == []


@pytest.mark.parametrize(
    ("reported", "state", "reason"),
    [
        ({"cuda": "12.9", "devices": ["/gpu:0"]}, "ready", ""),
        ({"cuda": ""}, "broken", "tensorflow 9 is a build without CUDA, but there is A card"),
        ({"cuda": "13.0"}, "broken", "the driver is too old: it knows CUDA 12.4, tensorflow 9 is built for 13.0"),
        ({"cuda": "12.9"}, "broken", "tensorflow 9 does not see A card: Cannot dlopen some GPU libraries"),
        ({"cuda": "unknown", "error": "why"}, "broken", "tensorflow 9 does not see A card: why"),
    ],
)
def test_the_states_of_the_framework(monkeypatch, reported, state, reason):
    whole = {"version": "9", "devices": [], "error": "", **reported}
    monkeypatch.setattr(devices, "_query", lambda queried: (whole, "Cannot dlopen some GPU libraries"))
    answer = devices.query_framework("tensorflow", HERE)
    assert (answer.state, answer.reason) == (state, reason)


def test_a_framework_that_dies_is_broken(monkeypatch):
    monkeypatch.setattr(devices, "_query", lambda queried: (None, "ended with exit code -11: without a message"))
    assert devices.query_framework("jax", HERE).reason == "jax ended with exit code -11: without a message"


def _tensorflow(cuda, device_names):
    named_devices = [SimpleNamespace(name=name) for name in device_names]
    return SimpleNamespace(
        __version__="9",
        sysconfig=SimpleNamespace(get_build_info=lambda: {"cuda_version": "12.9"}),
        test=SimpleNamespace(is_built_with_cuda=lambda: cuda),
        config=SimpleNamespace(list_physical_devices=lambda kind: named_devices),
    )


def _tensorflow_1(device_names):
    test = SimpleNamespace(
        is_built_with_cuda=lambda: True,
        is_gpu_available=lambda: bool(device_names),
        gpu_device_name=lambda: device_names[0],
    )
    return SimpleNamespace(__version__="1", sysconfig=SimpleNamespace(), test=test, config=SimpleNamespace())


def _jax(device_names):
    def list_devices(kind):
        if not device_names:
            raise RuntimeError("Unknown backend: 'gpu'\nmore")
        return device_names

    return SimpleNamespace(__version__="9", devices=list_devices)


def _torch(cuda, device_names):
    def init():
        if not device_names:
            raise RuntimeError("The NVIDIA driver on your system is too old")

    kinds = SimpleNamespace(device_count=lambda: len(device_names), get_device_name=device_names.__getitem__, init=init)
    return SimpleNamespace(__version__="9", cuda=kinds, version=SimpleNamespace(cuda=cuda))


@pytest.mark.parametrize(
    ("name", "module", "cuda", "device_names", "error"),
    [
        ("tensorflow", _tensorflow(True, ["/gpu:0"]), "12.9", ["/gpu:0"], ""),
        ("tensorflow", _tensorflow(False, []), "", [], ""),
        ("tensorflow", _tensorflow_1(["/gpu:0"]), "unknown", ["/gpu:0"], ""),
        ("tensorflow", _tensorflow_1([]), "unknown", [], ""),
        ("jax", _jax(["cuda:0"]), "12", ["cuda:0"], ""),
        ("jax", _jax([]), "12", [], "Unknown backend: 'gpu'"),
        ("torch", _torch("13.0", ["A card"]), "13.0", ["A card"], ""),
        ("torch", _torch(None, []), "", [], "The NVIDIA driver on your system is too old"),
    ],
)
def test_a_framework_is_asked(monkeypatch, name, module, cuda, device_names, error):
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(frameworks.importlib.util, "find_spec", lambda plugin: plugin == "jax_cuda12_plugin")
    report = frameworks.FRAMEWORKS[name]()
    assert (report["cuda"], report["devices"], report["error"]) == (cuda, device_names, error)
    assert json.loads(json.dumps(report)) == report


def test_only_a_cell_of_a_gpu_is_asked_for_one(monkeypatch):
    monkeypatch.setattr(cells, "query_driver", lambda: devices.Answer("no-gpu", "none"))
    assert cells.gpu_problem(MATRIX.cells["tf2-2.21.0-py313"]) is None
    assert cells.gpu_problem(CELL) == devices.Answer("no-gpu", "none")
    monkeypatch.setattr(cells, "query_driver", lambda: HERE)
    assert cells.gpu_problem(CELL) is None


def test_an_index_is_named_by_the_runner(monkeypatch):
    (cell,) = [cell for cell in MATRIX.cells.values() if cell.index]
    monkeypatch.setattr(cells, "query_driver", lambda: HERE)
    monkeypatch.delenv("UV_INDEX", raising=False)
    assert "UV_INDEX=%s=<address>" % cell.index in cells.gpu_problem(cell).reason


@pytest.mark.parametrize(("state", "code"), [("no-gpu", 0), ("broken", 1)])
def test_a_cell_without_a_device_writes_that_and_runs_nothing(tmp_path, monkeypatch, capsys, state, code):
    monkeypatch.setattr(devices, "ROOT", tmp_path)
    monkeypatch.setattr(cells, "query_driver", lambda: devices.Answer(state, "the reason"))
    monkeypatch.setattr(cells.subprocess, "run", None)
    assert cells.run(MATRIX, CELL, []) == code
    assert "the reason" in capsys.readouterr().err
    assert json.loads((tmp_path / "results" / "tf2-2.21.0-gpu-py313.json").read_text(encoding="utf-8")) == {
        "cell": CELL.id,
        "shim": "tf2",
        "python": "3.13",
        "state": state,
        "reason": "the reason",
    }


def test_the_framework_is_asked_after_the_driver(tmp_path, monkeypatch):
    queried = []
    monkeypatch.setattr(devices, "ROOT", tmp_path)
    monkeypatch.setattr(cells, "query_driver", lambda: HERE)
    monkeypatch.setattr(
        cells, "query_framework", lambda name, gpu: queried.append(name) or devices.Answer("broken", "blind")
    )
    for id_ in ("tf2-2.21.0-gpu-py313", "keras-3.15.1-jax-gpu-py311"):
        assert cells.run(MATRIX, MATRIX.cells[id_], []) == 1
    assert queried == ["tensorflow", "jax"]


def test_the_tests_get_the_device():
    assert cells.environment(MATRIX, CELL)["ONNX_COMPAT_DEVICE"] == "gpu"
    assert "CUDA_VISIBLE_DEVICES" not in cells.environment(MATRIX, CELL)
    assert cells.environment(MATRIX, MATRIX.cells["tf2-2.21.0-py313"])["CUDA_VISIBLE_DEVICES"] == "-1"


def test_no_framework_reserves_a_whole_gpu_or_computes_in_tf32():
    variables = cells.environment(MATRIX, CELL)
    assert variables.items() >= devices.GPU_VARIABLES.items()
    assert variables["TF_FORCE_GPU_ALLOW_GROWTH"] == "true" and variables["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert variables["NVIDIA_TF32_OVERRIDE"] == "0" and variables["JAX_DEFAULT_MATMUL_PRECISION"] == "highest"
    assert not {*devices.GPU_VARIABLES} & {*cells.environment(MATRIX, MATRIX.cells["tf2-2.21.0-py313"])}


@pytest.mark.parametrize(
    ("visible", "gpus"), [(None, "0,1"), ("", "0,1"), ("3", "3"), ("GPU-a, GPU-b,7", "GPU-a,GPU-b,7")]
)
def test_two_workers_start_for_each_gpu(monkeypatch, visible, gpus):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    variables = devices.assign_workers(devices.Answer("ready", names=("A100", "A100"), cuda=(12, 4)))
    count = len(gpus.split(","))
    assert variables == {"ONNX_COMPAT_GPUS": gpus, "PYTEST_XDIST_AUTO_NUM_WORKERS": str(2 * count)}


def test_each_worker_sees_its_gpu(tmp_path):
    (tmp_path / "test_sees.py").write_text(
        "import os, pathlib, pytest\n\n@pytest.mark.parametrize('k', range(40))\ndef test_sees(k):\n"
        "    pathlib.Path(os.environ['PYTEST_XDIST_WORKER']).write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n",
        encoding="utf-8",
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ONNX_COMPAT", "PYTEST"))}
    env = {**clean, "ONNX_COMPAT_GPUS": "4,GPU-b", "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-n3", "--dist=each", "-q"]
    subprocess.run([*command, f"--rootdir={tmp_path}", str(tmp_path)], cwd=tmp_path, env=env, check=True)
    assert [(tmp_path / f"gw{k}").read_text(encoding="utf-8") for k in range(3)] == ["4", "GPU-b", "4"]


def test_the_pins_of_a_gpu_hold_the_packages_of_cuda():
    for cell in MATRIX.cells.values():
        if cell.runner == "gpu" and not cell.index:
            assert "\nnvidia-cudnn-cu1" in cell.constraints.read_text(encoding="utf-8"), cell.id


def test_the_page_names_the_cells_and_the_variables():
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    rows = [
        [part.strip(" `") for part in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")
    ]
    by_name = {row[0]: row[1] for row in rows}
    assert {cell.id for cell in MATRIX.cells.values() if cell.runner == "gpu"} <= {*by_name}
    assert by_name.items() >= devices.GPU_VARIABLES.items()
    assert ", ".join(MATRIX.ci.runners["gpu"]) in page
    for name in by_name:
        assert not name.startswith("tests/") or (ROOT / name).exists(), name


def test_the_commands_of_the_page_exist():
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert "nox -t gpu" in page and any("gpu" in cell.tags for cell in MATRIX.cells.values())
    index, url, id_ = re.search(r"UV_INDEX=(\w+)=(\S+)\n\S*python -m matrix lock (\S+)", page).groups()
    assert MATRIX.cells[id_].index == index and url.startswith("https://")
    assert f'nox -s "cell({id_})"' in page, "the cell is not selected by its tag before it is locked"


def test_the_container_has_the_python_of_each_cell_of_a_gpu():
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    recipe = page.partition("docker run")[2].partition("```")[0]
    installed = re.search(r"for python in ([\d. ]+); do uv python install \$python", recipe)[1].split()
    assert installed == sorted({cell.python for cell in MATRIX.cells.values() if cell.runner == "gpu"}, key=Version)


def test_a_scheduled_run_selects_a_cell_of_a_gpu_once_it_is_locked(monkeypatch, tmp_path):
    cells = [cell for cell in MATRIX.cells.values() if cell.runner == "gpu"]
    assert {cell.id for cell in cells if "gpu" in cell.tags} == {
        cell.id for cell in cells if cell.constraints in set((ROOT / "matrix" / "constraints").glob("*.txt"))
    }
    monkeypatch.setattr(Cell, "constraints", tmp_path / "lock.txt")
    assert not any("gpu" in cell.tags for cell in cells)
    (tmp_path / "lock.txt").touch()
    assert all("gpu" in cell.tags for cell in cells)

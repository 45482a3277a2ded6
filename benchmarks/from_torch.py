"""litert-torch, Google's own way from PyTorch to .tflite: the networks of the zoo, from the modules they were exported from."""

from __future__ import annotations

from benchmarks.bench import Findings, Missing, Setting
from benchmarks.conversion import TIME
from benchmarks.measure import Figure
from benchmarks.process import Child, ChildError

__all__ = ["TORCH", "from_torch"]

TORCH = "litert-torch"


def from_torch(setting: Setting, networks: dict[str, tuple[str, bool]], found: Findings) -> dict[str, str]:
    """The files, by the names of the networks, of which each is a name in the zoo and whether it is of full size. All in one
    process: its import alone takes longer than most conversions. What it does once, it does for one that does not count.
    """
    files: dict[str, str] = {}
    try:
        python = setting.python(TORCH)[1]
    except Missing as error:
        found.missing.append(f"{TORCH}: {error}")
        return files
    with Child(TORCH, python) as child:

        def convert(name: str) -> float:
            model, full = networks[name]
            path = str(setting.scratch / f"{name}.{TORCH}.tflite")
            seconds: float = child.call("convert_torch", name=model, full=full, path=path)["seconds"]
            files[name] = path
            return seconds

        for count, name in enumerate([*list(networks)[-1:], *networks]):
            try:
                seconds = convert(name)
            except ChildError as error:
                if count:
                    found.missing.append(f"{name}: {error}")
                continue
            if count:
                found.figures.append(Figure(f"{name}: {TIME}", TORCH, seconds, "s"))
    return files

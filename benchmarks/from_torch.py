"""Bench of litert-torch, Google's converter from PyTorch to .tflite, on the PyTorch modules of the zoo."""

from __future__ import annotations

from benchmarks.bench import Findings, Missing, Setting
from benchmarks.conversion import TIME
from benchmarks.measure import Figure
from benchmarks.process import Child, ChildError

__all__ = ["TORCH", "from_torch"]

TORCH = "litert-torch"


def from_torch(setting: Setting, networks: dict[str, tuple[str, bool]], findings: Findings) -> dict[str, str]:
    """Convert networks with litert-torch, append the durations to `findings`, and return name -> path of the file.

    `networks`: name -> (name in the zoo, whether it is the large variant). All conversions run in one process, because
    the import of litert-torch takes longer than most of them. The first conversion is a warm-up. A network that fails
    is absent, and appended to `findings.missing`; so are all networks if there is no environment with litert-torch.
    """
    files: dict[str, str] = {}
    try:
        python = setting.python(TORCH)[1]
    except Missing as error:
        findings.missing.append(f"{TORCH}: {error}")
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
                    findings.missing.append(f"{name}: {error}")
                continue
            if count:
                findings.figures.append(Figure(f"{name}: {TIME}", TORCH, seconds, "s"))
    return files

"""The ONNX files of the benches, read from the cache that `nox -s zoo` and `nox -s suites` fill."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.bench import Missing, Network
from benchmarks.process import environment

__all__ = ["NAMES", "find_cached", "find_light_models", "find_networks"]

NAMES = {"resnet50": "ResNet50", "mobilenet_v2": "MobileNetV2"}
"""Name of the network in the zoo -> its name in keras.applications."""
SHAPE = (1, 3, 224, 224)
ROOT = Path(__file__).resolve().parent.parent
# The module of the cache needs onnx, which the environments have and this process may not have.
_LIST = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from matrix.suites.cache import read_index; "
    "print(json.dumps({s + '/' + row.name: str(row.model) for s in sys.argv[2:] for row in read_index(s)}))"
)


def find_networks(names: list[str], python: str) -> list[Network]:
    """Return the networks with these names, which are keys of `NAMES`. `python`: an interpreter with onnx.

    Raise Missing if the cache lacks a file.
    """
    paths = find_cached(python, "zoo", "zoo-full")

    def path(suite: str, name: str) -> Path:
        if f"{suite}/{name}" not in paths:
            raise Missing(f"The model {suite}/{name} is not in the cache. Run `nox -s zoo -- --size both`.")
        return Path(paths[f"{suite}/{name}"])

    return [
        Network(
            name,
            path("zoo-full", f"{name}-dynamo-fixed"),
            path("zoo-full", f"{name}-script-dynamic"),
            path("zoo", f"{name}-dynamo-fixed"),
            SHAPE,
            NAMES[name],
        )
        for name in names
    ]


def find_light_models(python: str) -> dict[str, str]:
    """Return name -> path of onnx's light models with random weights. `python`: an interpreter with onnx.

    Raise Missing if they are not in the cache.
    """
    paths = find_cached(python, "light-random")
    if not paths:
        raise Missing("The light models are not in the cache. Run `nox -s suites`.")
    return {name.partition("/test_")[2]: path for name, path in sorted(paths.items())}


def find_cached(python: str, *suites: str) -> dict[str, str]:
    """Return `suite/name` -> path of each model of these suites in the cache. `python`: an interpreter with onnx."""
    process = subprocess.run(
        [python, "-c", _LIST, str(ROOT), *suites], env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    paths: dict[str, str] = json.loads(process.stdout.splitlines()[-1])
    return paths

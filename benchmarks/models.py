"""The networks, out of the cache that `nox -s zoo` fills."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.bench import Missing, Network
from benchmarks.process import environment

__all__ = ["NAMES", "cached", "light", "networks"]

NAMES = {"resnet50": "ResNet50", "mobilenet_v2": "MobileNetV2"}
"""In the zoo, and in keras.applications."""
SHAPE = (1, 3, 224, 224)
ROOT = Path(__file__).resolve().parent.parent
# The cache is read by its own module; that needs onnx, which the environments have and this process may not.
_LIST = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from matrix.suites.cache import read_index; "
    "print(json.dumps({s + '/' + row.name: str(row.model) for s in sys.argv[2:] for row in read_index(s)}))"
)


def networks(names: list[str], python: str) -> list[Network]:
    """`python` is an interpreter that has onnx."""
    paths = cached(python, "zoo", "zoo-full")

    def path(suite: str, name: str) -> Path:
        if f"{suite}/{name}" not in paths:
            raise Missing(f"the model {suite}/{name} is not in the cache: run `nox -s zoo -- --size both`")
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


def light(python: str) -> dict[str, str]:
    """The light models of onnx, with weights under which they compute something: name -> path."""
    paths = cached(python, "light-random")
    if not paths:
        raise Missing("the light models are not in the cache: run `nox -s suites`")
    return {name.partition("/test_")[2]: path for name, path in sorted(paths.items())}


def cached(python: str, *suites: str) -> dict[str, str]:
    """`suite/name` -> path, of all that these suites have."""
    done = subprocess.run(
        [python, "-c", _LIST, str(ROOT), *suites], env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found

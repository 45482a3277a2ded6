"""Conditions of declared gaps: the environments in which a gap holds.

A condition is one of:

    *                                         every environment
    tflite-runtime>=2.11,<2.13                an installed package of this version
    tensorflow<1.15; python_version >= "3.7"  the same, with an environment marker
    KERAS_BACKEND=jax                         an environment variable with this value

A range of versions covers patch versions that are not tested yet. A name of a cell would not.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Callable, Iterable, Mapping, NamedTuple, Optional

__all__ = ["ANYWHERE", "Installed", "holds", "read_environment"]

ANYWHERE = "*"
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(\w+)")


class Installed(NamedTuple):
    """The environment that conditions are checked in.

    - version: a function from the name of a package to its installed version; None: it is not installed.
    - variables: the environment variables.
    - python: the minor version of Python, such as "3.11".
    """

    version: Callable[[str], Optional[str]]
    variables: Mapping[str, str]
    python: str


def read_environment() -> Installed:
    """Return the environment of this process."""
    return Installed(_version, os.environ, "%d.%d" % sys.version_info[:2])


def holds(conditions: Iterable[str], environment: Optional[Installed] = None) -> bool:
    """Whether at least one of the conditions holds. `environment` None: the environment of this process.

    Raise packaging's InvalidRequirement for a malformed condition.
    """
    return any(_holds(condition, environment or read_environment()) for condition in conditions)


def _holds(condition: str, environment: Installed) -> bool:
    """Whether a single condition holds in an environment. The module describes the forms of conditions."""
    if condition == ANYWHERE:
        return True
    variable = _VARIABLE.fullmatch(condition)
    if variable:
        return environment.variables.get(variable[1]) == variable[2]
    # Peers read gaps too, and not all of them install packaging. Their gaps hold everywhere.
    from packaging.requirements import Requirement

    requirement = Requirement(condition)
    if requirement.marker and not requirement.marker.evaluate({"python_version": environment.python}):
        return False
    version = environment.version(requirement.name)
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _version(name: str) -> Optional[str]:
    """Return the version of an installed distribution, or None if it is not installed."""
    metadata = importlib.import_module("importlib.metadata" if sys.version_info >= (3, 8) else "importlib_metadata")
    try:
        version: str = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    return version

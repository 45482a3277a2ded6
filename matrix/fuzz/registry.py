"""Registry of templates: a function that adds a node of an operator, or an idiom of several nodes, to a draft."""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple

from matrix.fuzz.draw import Draw

__all__ = ["TEMPLATES", "Template", "template"]

Grow = Callable[[Draw], None]


class Template(NamedTuple):
    """A template: the function `grow` adds an operator or an idiom. `since`: the first opset that it can be used with.

    `weight`: how often the template is drawn, relative to the others.
    """

    name: str
    weight: float
    since: int
    grow: Grow


TEMPLATES: Dict[str, Template] = {}


def template(name: str, weight: float = 1.0, since: int = 13) -> Callable[[Grow], Grow]:
    """Return a decorator that registers a function as the template `name` in TEMPLATES, and returns the function.

    `weight`: how often the template is drawn, relative to the others. `since`: its first opset. The decorator raises
    ValueError for a name that is registered.
    """

    def register(grow: Grow) -> Grow:
        if name in TEMPLATES:
            raise ValueError("the template %r is registered twice" % name)
        TEMPLATES[name] = Template(name, weight, since, grow)
        return grow

    return register

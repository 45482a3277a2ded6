"""The contract of a pass: a rewrite that keeps the results.

A pass has a name, a summary, order constraints and an example.
"""

from typing import TYPE_CHECKING, Any, Callable, Sequence, Tuple

from onnx_compat.ir import Region

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Emitter, Program

__all__ = ["EVERY", "Pass", "ProgramPass", "program_pass"]

#: In `after`: the pass runs after every other pass of its schedule.
EVERY = "*"


class Pass:
    """A registered rewrite of a program or of a target graph.

    - name: a noun phrase in lowercase with underscores. `ONNX_COMPAT_PASSES` and reports use it.
    - summary: "before => after", and the condition under which the rewrite holds.
    - apply: the function that rewrites. A subclass declares its signature.
    - example: a function that builds a small program or graph on which the pass acts. A subclass declares its
      signature.
    - after: the names of the passes that must run before this pass. `EVERY`: all other passes of the schedule.
    - before: the names of the passes that must run after this pass.
    - legalizes: True if a runtime refuses or misreads a file without this rewrite. Other passes make files smaller or
      faster.
    """

    #: "program" or "graph": the object of the rewrite.
    kind = ""

    def __init__(
        self,
        name: str,
        summary: str,
        apply: Callable[..., Any],
        example: Callable[..., Any],
        after: Sequence[str] = (),
        before: Sequence[str] = (),
        legalizes: bool = False,
    ) -> None:
        self.name = name
        self.summary = summary
        self.apply = apply
        self.example = example
        self.after = tuple(after)
        self.before = tuple(before)
        self.legalizes = legalizes

    def __repr__(self) -> str:
        return "%s(%r)" % (type(self).__name__, self.name)


class ProgramPass(Pass):
    """A pass over a recorded program, for an emitter `target`.

    `apply(region, target)` returns the region, changed or new, and the number of rewrites. `example(target)` records a
    program on which the pass acts.
    """

    kind = "program"
    apply: "Callable[[Region, Emitter], Tuple[Region, int]]"
    example: "Callable[[Emitter], Program]"


def program_pass(
    name: str,
    summary: str,
    example: "Callable[[Emitter], Program]",
    after: Sequence[str] = (),
    before: Sequence[str] = (),
    legalizes: bool = False,
) -> "Callable[[Callable[[Region, Emitter], Tuple[Region, int]]], ProgramPass]":
    """Return a decorator that makes a `ProgramPass` of a function (region, emitter) -> (region, number of rewrites).

    The arguments are those of `Pass`.
    """
    return lambda apply: ProgramPass(name, summary, apply, example, after, before, legalizes)

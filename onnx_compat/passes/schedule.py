"""Schedules: check the order of passes against their constraints, and skip the passes that the user leaves out."""

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Dict, FrozenSet, Iterable, Iterator, List, Optional, Sequence

from onnx_compat.errors import ConversionError, InputError, OnnxCompatError, VerificationError
from onnx_compat.ir import Region, is_verifying
from onnx_compat.passes.contract import EVERY, Pass
from onnx_compat.passes.report import count_rewrites

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Emitter

__all__ = ["VARIABLE", "Schedule", "check_names", "leaving_out", "left_out", "naming", "run_program_passes"]

#: The environment variable that leaves passes out: "-identities,-dead_code".
VARIABLE = "ONNX_COMPAT_PASSES"


class Schedule:
    """Passes in the order in which they run. A pass may occur several times.

    Raises ConversionError if the order breaks a constraint of a pass P:

    - A name in `after`: the named pass runs at least once before the first run of P.
    - `EVERY` in `after`: all runs of all other passes are before the first run of P.
    - A name in `before`: the named pass runs at least once after the last run of P.

    A named pass that is missing breaks the constraint.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        self.passes = tuple(passes)
        _check_order(self.passes)

    @property
    def distinct(self) -> List[Pass]:
        """The passes without repetitions, in the order of their first occurrence."""
        return list({pass_.name: pass_ for pass_ in self.passes}.values())

    def select(self) -> Iterator[Pass]:
        """Yield the passes to run, in order. A pass that the user leaves out is skipped.

        The open report counts a skipped pass as left out. Raises InputError at the first item if the environment
        variable is malformed (see `left_out`).
        """
        names = left_out()
        for pass_ in self.passes:
            if pass_.name in names:
                count_rewrites(pass_, 0, left_out=True)
            else:
                yield pass_


def _check_order(passes: Sequence[Pass]) -> None:
    """Raise ConversionError if the order of passes breaks a constraint of a pass (see `Schedule`)."""
    first: Dict[str, int] = {}
    for position, pass_ in enumerate(passes):
        first.setdefault(pass_.name, position)
    last = {pass_.name: position for position, pass_ in enumerate(passes)}
    for pass_ in passes:
        earlier = [name for name in first if name != pass_.name] if EVERY in pass_.after else pass_.after
        for name in earlier:
            # EVERY: after all runs of every other pass. A name: after one run of that pass.
            if name not in first or (last if EVERY in pass_.after else first)[name] > first[pass_.name]:
                raise _order_error(name, pass_.name)
        for name in pass_.before:
            if name not in last or last[pass_.name] > last[name]:
                raise _order_error(pass_.name, name)


def _order_error(first: str, second: str) -> ConversionError:
    return ConversionError(
        "the schedule runs the pass '%s' without '%s' before it" % (second, first),
        hint="add '%s' to the schedule, before '%s'" % (first, second),
    )


_LEFT_OUT: "ContextVar[Optional[FrozenSet[str]]]" = ContextVar("onnx_compat_passes_left_out", default=None)


@contextmanager
def leaving_out(names: Iterable[str]) -> Iterator[None]:
    """Leave out the passes `names` inside the block, in this thread.

    In the block, the environment variable ONNX_COMPAT_PASSES and the names of an outer block have no effect. Unknown
    names are not refused here: see `check_names`.
    """
    token = _LEFT_OUT.set(frozenset(names))
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def left_out() -> FrozenSet[str]:
    """Return the names of the passes to skip.

    These are the names of the innermost open block of `leaving_out`. Without a block, they are the names in the
    environment variable ONNX_COMPAT_PASSES, each with a minus: "-identities,-dead_code" -> {"identities", "dead_code"}.
    Raises InputError for a variable of another form.
    """
    names = _LEFT_OUT.get()
    if names is not None:
        return names
    words = [word.strip() for word in os.environ.get(VARIABLE, "").split(",") if word.strip()]
    malformed = next((word for word in words if not word.startswith("-") or word == "-"), None)
    if malformed is not None:
        raise InputError(
            "%s has '%s', which leaves no pass out" % (VARIABLE, malformed),
            hint="write the names of passes with a minus before each: %s=-identities,-dead_code" % VARIABLE,
        )
    return frozenset(word[1:] for word in words)


def check_names(passes: Iterable[Pass]) -> None:
    """Raise InputError if the user leaves out a pass that is not in `passes`. Otherwise do nothing.

    The passes that the user leaves out are those of `left_out`. A malformed environment variable raises InputError too.
    """
    known = sorted(pass_.name for pass_ in passes)
    unknown = sorted(left_out() - set(known))
    if unknown:
        source = VARIABLE if _LEFT_OUT.get() is None else "`leaving_out`"
        names = " and ".join("'%s'" % name for name in unknown)
        reason = "%s leaves out %s, which this shim does not have as a pass" % (source, names)
        hint = "the passes are: %s" % ", ".join(known) if known else "the shim has no passes: leave no pass out"
        raise InputError(reason, hint=hint)


@contextmanager
def naming(pass_: Pass) -> Iterator[None]:
    """Context manager: convert an exception of the block to a VerificationError that names the pass.

    The error's hint says how to leave the pass out. These exceptions propagate unchanged: an OnnxCompatError, a
    MemoryError, and an exception that ends the process, such as KeyboardInterrupt.
    """
    try:
        yield
    except (OnnxCompatError, MemoryError):
        raise
    except Exception as error:  # a pass with a defect may raise anything
        raise VerificationError(
            "the pass '%s' failed with %s: %s" % (pass_.name, type(error).__name__, error),
            hint="%s=-%s leaves the pass out" % (VARIABLE, pass_.name),
        ) from error


def run_program_passes(schedule: Schedule, region: Region, target: "Emitter") -> Region:
    """Apply the selected passes of a schedule to a region, and return the rewritten region.

    A pass may change `region` in place. The rewrites are added to the open report.

    - An exception of a pass becomes VerificationError (see `naming`).
    - With ONNX_COMPAT_VERIFY=1, the region is verified after each pass that rewrote something. A defect raises
      VerificationError.
    - A malformed ONNX_COMPAT_PASSES raises InputError (see `left_out`).
    """
    for pass_ in schedule.select():
        with naming(pass_):
            region, rewrites = pass_.apply(region, target)
        count_rewrites(pass_, rewrites)
        if rewrites and is_verifying():
            from onnx_compat.ir.verifier import verify_region

            verify_region(region)
    return region

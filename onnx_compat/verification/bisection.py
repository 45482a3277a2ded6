"""Find the pass that makes a result wrong: run a conversion with fewer passes, by binary search."""

import os
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from onnx_compat.conversion.bundle import is_bundle
from onnx_compat.conversion.convert import convert, writer_of
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, OnnxCompatError
from onnx_compat.passes import Pass, leaving_out, passes_of
from onnx_compat.passes.schedule import left_out
from onnx_compat.verification.verify_model import ModelSource, verify

__all__ = ["Bisection", "bisect_passes", "bisect_verification"]


class Bisection(NamedTuple):
    """The result of a search for a wrong pass: its name (`culprit`, or None) and a text (`verdict`).

    `trials` has an entry for each trial. Key: the names of the passes that were left out, joined by commas; "" for
    none. Value: whether the outputs agreed.
    """

    culprit: Optional[str]
    verdict: str
    trials: Dict[str, bool]

    def to_dict(self) -> Dict[str, Any]:
        """Return the result of the search as a dict of JSON values."""
        return dict(self._asdict())


def bisect_verification(
    model: ModelSource,
    converted: Union[str, "os.PathLike[str]", None] = None,
    shim: Optional[str] = None,
    channels_last: Sequence[str] = (),
    **options: Any,
) -> Bisection:
    """Find the pass that makes `verify` fail, by trials with fewer passes. Return a `Bisection`.

    The arguments are those of `verify`. `options`: all arguments of `verify` that are not named here.

    - `converted` is a file that was converted from the model: each trial converts the model to its format again,
      without quantisation, `shapes` and `values`.
    - `converted` is None: each trial compiles the model for the shim.

    In a trial, an OnnxCompatError other than InputError counts as outputs that differ. Raises:

    - InputError for a bundle, and for inputs that do not fit.
    - ConversionError if no shim writes the format.
    - ShimError if the shim is not found or does not work.
    """
    if converted is None:
        target = selection.find(selection.decide(shim).name)
    elif is_bundle(converted):
        raise InputError(
            "'%s' is a bundle, and passes are bisected for a single file" % converted,
            hint="bisect a model of the nodes that the format can hold",
        )
    else:
        target = writer_of(converted, shim)

    def agrees() -> bool:
        try:
            if converted is None:
                return verify(model, shim=shim, **options).ok
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, os.path.basename(os.path.normpath(os.fspath(converted))))
                convert(model, path, shim=shim, channels_last=channels_last)
                return verify(model, shim=shim, converted=path, channels_last=channels_last, **options).ok
        except InputError:
            raise
        except OnnxCompatError:
            return False  # a wrong pass may also write a file that the runtime refuses

    return bisect_passes(passes_of(target), agrees)


def bisect_passes(passes: Sequence[Pass], agrees: Callable[[], bool]) -> Bisection:
    """Find the first pass with which `agrees` becomes False, by binary search. Return a `Bisection`.

    - passes: in the order in which they run. Passes that the user leaves out run in no trial.
    - agrees: a function that converts and verifies with the passes that are not left out. It returns whether the
      outputs agree.

    There is no culprit if the outputs agree with all passes, or differ in every trial. The search assumes that the
    outputs stay wrong with every further pass.

    Passes that legalize run in every trial of the binary search. If the outputs differ even with legalizing passes
    only, further trials each leave out one legalizing pass too, until the outputs agree.
    """
    search = _Search(agrees)
    candidates = [pass_.name for pass_ in passes if pass_.name not in search.base]
    rewrites = [pass_.name for pass_ in passes if pass_.name in candidates and not pass_.legalizes]
    if search.agrees_without([]):
        return search.result(
            None, "the outputs agree with all passes: the file was changed or is older, or was made with other options"
        )
    if not search.agrees_without(rewrites):
        for name in candidates:
            if name not in rewrites and search.agrees_without([*rewrites, name]):
                return search.result(name, "the pass '%s' makes the result wrong" % name)
        return search.result(None, "no pass is at fault: the outputs differ without the passes, too")
    # With the first `agreeing` passes the outputs agree; with the first `differing` passes they differ.
    agreeing, differing = 0, len(rewrites)
    while differing - agreeing > 1:
        middle = (agreeing + differing) // 2
        if search.agrees_without(rewrites[middle:]):
            agreeing = middle
        else:
            differing = middle
    culprit = rewrites[agreeing]
    verdict = "the pass '%s' makes the result wrong" % culprit
    if not search.agrees_without([culprit]):
        verdict += ", and the outputs differ without it, too: a later pass is at fault as well"
    return search.result(culprit, verdict)


class _Search:
    """The trials of one search for a wrong pass. The result of a trial is cached, so that each trial runs once.

    `agrees`: the function of a trial, as for `bisect_passes`. `base`: the names of the passes that the user leaves out.
    """

    def __init__(self, agrees: Callable[[], bool]) -> None:
        self.base = left_out()
        self._agrees = agrees
        self._trials: Dict[str, bool] = {}

    def agrees_without(self, names: List[str]) -> bool:
        """Return whether the outputs agree if the passes `names` and the passes in `base` are left out.

        A trial of the same names is not repeated.
        """
        key = ",".join(names)
        if key not in self._trials:
            with leaving_out([*self.base, *names]):
                self._trials[key] = self._agrees()
        return self._trials[key]

    def result(self, culprit: Optional[str], verdict: str) -> Bisection:
        return Bisection(culprit, verdict, self._trials)

"""Extras that a user names: whether this Python can install each, and which Python or which other extra to use."""

import difflib
import re
import sys
from typing import NamedTuple, Optional, Tuple

import click

from onnx_compat.discovery.environment import python_range
from onnx_compat.discovery.offers import ALIASES, OFFERS, Offer

__all__ = ["ExtraReport", "describe_extra", "extras"]


class ExtraReport(NamedTuple):
    """Whether this Python can install an extra: the reason, and the command or the advice that follows from it."""

    name: str
    available: bool
    reason: str
    hint: str


def extras(_context: click.Context, _parameter: click.Parameter, value: Tuple[str, ...]) -> Tuple[ExtraReport, ...]:
    """Return reports on the extras that --extra names. Raise BadParameter for a name of no extra with a framework."""
    return tuple(describe_extra(name) for name in value)


def describe_extra(name: str) -> ExtraReport:
    """Return an `ExtraReport` for an extra that installs a shim with its framework.

    Raise click.BadParameter for any other name.
    """
    offer = next((offer for offer in OFFERS if offer.extra == ALIASES.get(name, name)), None)
    if offer is None:
        close = difflib.get_close_matches(name, [*(offer.extra for offer in OFFERS), *ALIASES], 1)
        hint = "did you mean '%s'?" % close[0] if close else "the page Versions of the documentation lists them"
        raise click.BadParameter("no extra '%s' installs a framework; %s" % (name, hint), param_hint="'--extra'")
    this_python = "%d.%d" % sys.version_info[:2]
    subject = " ".join(filter(None, (offer.framework, offer.minor)))
    wheels = "%s has wheels for Python %s" % (subject, python_range(offer.pythons))
    if this_python in offer.pythons:
        return ExtraReport(name, True, wheels, "pip install 'onnx-compat[%s]'" % name)
    nearest = _nearest(offer, this_python)
    hint = "use Python %s" % python_range(offer.pythons)
    if nearest:
        hint += ", or pip install 'onnx-compat[%s]'" % nearest
    return ExtraReport(name, False, "%s, not for Python %s" % (wheels, this_python), hint)


def _nearest(wanted: Offer, python: str) -> Optional[str]:
    """Return the extra of the same framework with the next newer version for a Python, else with the next older one.

    None: no version of the framework has wheels for this Python.
    """
    alike = [offer for offer in OFFERS if _without_version(offer) == _without_version(wanted)]
    index = alike.index(wanted)
    by_distance = alike[index:] + alike[:index][::-1]
    return next((offer.extra for offer in by_distance if python in offer.pythons), None)


def _without_version(offer: Offer) -> Tuple[str, str, str]:
    """Return a key that is equal for the offers of one framework and back end: (extra, shim, framework).

    The extra is without its version: "keras-jax" of "keras3-12-jax".
    """
    return re.sub(r"\d+-\d+", "", offer.extra), offer.shim, offer.framework

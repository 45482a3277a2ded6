"""Generators of random numbers that the tests of a module share: each test draws the same numbers, also when run alone.

    RANDOM = per_test(np.random.RandomState(0))

tests/conftest.py calls `keep_states` after the tests are collected, and `restore_states` before each test. So constants
that a module draws at import do not come again in its tests.
"""

from typing import Any, List, TypeVar

__all__ = ["keep_states", "per_test", "restore_states"]

_Generator = TypeVar("_Generator")


class _Kept:
    """Stores the state of a numpy generator, so that it can be restored before each test."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.state = self._read()

    def _read(self) -> Any:
        if hasattr(self.generator, "get_state"):  # RandomState
            return self.generator.get_state()
        return self.generator.bit_generator.state

    def keep(self) -> None:
        """Store the present state of the generator."""
        self.state = self._read()

    def restore(self) -> None:
        """Set the generator to the stored state."""
        if hasattr(self.generator, "set_state"):
            self.generator.set_state(self.state)
        else:
            self.generator.bit_generator.state = self.state


_KEPT: List[_Kept] = []


def per_test(generator: _Generator) -> _Generator:
    """Register `generator`, so that `restore_states` resets it before every test. Return `generator` itself.

    Args:
        generator: a RandomState or a Generator of numpy, made from a seed.
    """
    _KEPT.append(_Kept(generator))
    return generator


def keep_states() -> None:
    """Store the present state of each registered generator. Call it after the modules of tests are imported."""
    for kept in _KEPT:
        kept.keep()


def restore_states() -> None:
    """Set each registered generator to its stored state. Call it before each test."""
    for kept in _KEPT:
        kept.restore()

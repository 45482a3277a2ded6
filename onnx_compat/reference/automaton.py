"""Match regular expressions in linear time, by a nondeterministic finite automaton (Thompson's construction).

Python's `re` tries one path after the other: `(a+)+$` takes 2^n steps for n letters. The automaton follows all paths at
once, so a text of n characters takes at most n steps over its states, as in RE2.
"""

import re
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from onnx_compat import limits
from onnx_compat.errors import UnsupportedError
from onnx_compat.reference.regex import translate

__all__ = ["Automaton"]

#: The tokens of a pattern that `translate` returns: word bounds, groups, classes, escapes, repetitions, characters.
_TOKEN = re.compile(
    r"\(\?a:\\[bB]\)|\(\?(?P<on>[ims]*)(?:-(?P<off>[ims]+))?:|\)|\||\[\^?(?:\\U[0-9a-f]{8}-\\U[0-9a-f]{8})+\]|\\."
    r"|(?P<repeat>[*+?]|\{(?P<least>\d+)(?P<range>,(?P<most>\d*))?\})\??|.",
    re.DOTALL,
)
_ASSERTIONS = ("(?a:\\b)", "(?a:\\B)", "\\A", "\\Z", "^", "$")
#: The number of states in cached sets of states before the caches are cleared.
_CACHED = 10**6

States = FrozenSet[int]


class _Syntax(NamedTuple):
    """A part of the syntax tree of a pattern.

    - kind: "char" (a character), "assert" (an assertion on a position), "cat" (the sequence of `parts`), "alt" (one of
      `parts`), or "repeat" (repetitions of the only part).
    - size: the number of states that the part needs.
    - text: of "char" and "assert", a regular expression of the character or of the position.
    - bounds: of "repeat", the least and the largest count. A largest count of None is no bound.
    """

    kind: str
    size: int
    text: str = ""
    parts: "Sequence[Any]" = ()
    bounds: Tuple[int, Optional[int]] = (0, None)


class _Group:
    """A group of the pattern that is not closed yet: its finished alternatives, and the parts of the last alternative.

    `flags` are the letters of the flags that hold in the group, such as "im".
    """

    def __init__(self, flags: str) -> None:
        self.flags = flags
        self.alternatives: List[_Syntax] = []
        self.parts: List[_Syntax] = []

    def end_alternative(self) -> None:
        size = sum(part.size for part in self.parts)
        self.alternatives.append(_Syntax("cat", size, parts=tuple(self.parts)))
        self.parts = []

    def close(self) -> _Syntax:
        self.end_alternative()
        size = 1 + sum(part.size for part in self.alternatives)
        return _Syntax("alt", size, parts=tuple(self.alternatives))


def _parse(pattern: str) -> _Syntax:
    """Return the syntax tree of a pattern that `translate` returned."""
    groups = [_Group("")]
    for token in _TOKEN.finditer(pattern):
        text, group = token.group(), groups[-1]
        if token.group("on") is not None:
            off = token.group("off") or ""
            groups.append(_Group("".join(sorted(set(group.flags + token.group("on")) - set(off)))))
        elif text == ")":
            closed = groups.pop().close()
            groups[-1].parts.append(closed)
        elif text == "|":
            group.end_alternative()
        elif token.group("repeat") is not None:
            group.parts.append(_repeat(group.parts.pop(), token))
        else:
            kind = "assert" if text in _ASSERTIONS else "char"
            group.parts.append(_Syntax(kind, 1, "(?%s:%s)" % (group.flags, text)))
    return groups[0].close()


def _repeat(part: _Syntax, token: Any) -> _Syntax:
    symbol = token.group("repeat")
    if symbol in "*+?":
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[symbol]
    else:
        least = int(token.group("least"))
        most = least if token.group("range") is None else int(token.group("most")) if token.group("most") else None
    copies = least + 1 if most is None else max(most, 1)
    return _Syntax("repeat", copies * (part.size + 1), parts=(part,), bounds=(least, most))


class Automaton:
    """Match texts against a regular expression in the syntax of RE2. An instance is the automaton of one expression.

    Raises InvalidModelError for a pattern that RE2 or Python's `re` does not accept. Raises UnsupportedError for an
    escape that `regex` cannot translate, and for groups that are nested too deeply. Raises LimitError above the limit
    `regex_states`.
    """

    def __init__(self, pattern: str) -> None:
        #: For each state: the expression of a character or a position, or "" for a fork; and the next states.
        self._states: List[Tuple[str, bool, List[int]]] = [("", False, [])]  # state 0 accepts
        try:
            syntax = _parse(translate(pattern))
            limits.check("regex_states", syntax.size, "the regular expression '%s'" % pattern[:60])
            self._start = frozenset([self._add(syntax, 0)])
        except RecursionError:
            raise UnsupportedError("the groups of a regular expression are nested too deeply") from None
        self._matchers: Dict[str, Any] = {}
        self._assertions = sorted({text for text, is_assertion, _ in self._states if is_assertion})
        self._closures: Dict[Tuple[States, Tuple[bool, ...]], States] = {}
        self._steps: Dict[Tuple[States, str], States] = {}
        self._cached = 0

    def fullmatch(self, text: str) -> bool:
        """Return whether the expression matches the whole text."""
        states = self._start
        for position, char in enumerate(text):
            reached = self._closure(states, self._outcomes(text, position))
            states = self._step(reached, char)
            if not states:
                return False
        return 0 in self._closure(states, self._outcomes(text, len(text)))

    # -- construction --------------------------------------------------------------------------------------------------
    def _new(self, text: str, is_assertion: bool, following: List[int]) -> int:
        self._states.append((text, is_assertion, following))
        return len(self._states) - 1

    def _add(self, part: _Syntax, following: int) -> int:
        """Add the states of a part of the pattern, in front of the state `following`. Return the first state."""
        if part.kind in ("char", "assert"):
            return self._new(part.text, part.kind == "assert", [following])
        if part.kind == "alt":
            return self._new("", False, [self._add(inner, following) for inner in part.parts])
        if part.kind == "cat":
            for inner in reversed(part.parts):
                following = self._add(inner, following)
            return following
        (inner,), (least, most) = part.parts, part.bounds
        end = start = following
        if most is None:
            start = self._new("", False, [end])
            self._states[start][2].append(self._add(inner, start))
        for _ in range(0 if most is None else most - least):
            start = self._new("", False, [end, self._add(inner, start)])
        for _ in range(least):
            start = self._add(inner, start)
        return start

    # -- matching ------------------------------------------------------------------------------------------------------
    def _matcher(self, text: str) -> Any:
        if text not in self._matchers:
            self._matchers[text] = re.compile(text)
        return self._matchers[text]

    def _outcomes(self, text: str, position: int) -> Tuple[bool, ...]:
        """Return for each assertion of the pattern whether it holds at a position of the text."""
        return tuple(self._matcher(item).match(text, position) is not None for item in self._assertions)

    def _closure(self, states: States, outcomes: Tuple[bool, ...]) -> States:
        """Return the states reached from `states` without a character. `outcomes`: whether each assertion holds."""
        key = states, outcomes
        if key not in self._closures:
            holds = dict(zip(self._assertions, outcomes))
            reached, pending = set(states), list(states)
            while pending:
                text, is_assertion, following = self._states[pending.pop()]
                if not text or (is_assertion and holds[text]):
                    pending.extend(state for state in following if state not in reached)
                    reached.update(following)
            self._remember(len(reached))
            self._closures[key] = frozenset(reached)
        return self._closures[key]

    def _step(self, states: States, char: str) -> States:
        """Return the states that follow `states` when the character `char` is read."""
        key = states, char
        if key not in self._steps:
            accepts: Dict[str, bool] = {}
            following = set()
            for state in states:
                text, is_assertion, after = self._states[state]
                if text and not is_assertion:
                    if text not in accepts:
                        accepts[text] = self._matcher(text).fullmatch(char) is not None
                    if accepts[text]:
                        following.update(after)
            self._remember(len(following))
            self._steps[key] = frozenset(following)
        return self._steps[key]

    def _remember(self, count: int) -> None:
        """Count the states of a set that is cached, and clear the caches if they have too many."""
        self._cached += count + 1
        if self._cached > _CACHED:
            self._closures.clear()
            self._steps.clear()
            self._cached = 0

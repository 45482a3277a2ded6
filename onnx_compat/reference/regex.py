"""Regular expressions in RE2's syntax, as Python's module understands them.

RE2 knows no memory of what was matched and no looking around; what Python alone would understand is refused, and so are
the few things that only RE2 has. How greedy a repetition is makes no difference to whether a whole text matches.
"""

import re
from typing import Any, Dict, List, NoReturn, Sequence, Tuple

from onnx_compat.errors import InvalidModelError, UnsupportedError

__all__ = ["translated"]

_Ranges = Sequence[Tuple[int, int]]
_LAST = 0x10FFFF


def _ranges(text: str) -> _Ranges:
    """Pairs of characters, first and last."""
    return [(ord(first), ord(last)) for first, last in zip(text[::2], text[1::2])]


_PERL = {"d": _ranges("09"), "s": _ranges("\t\n\f\r  "), "w": _ranges("09AZ__az")}
_POSIX = {
    "alnum": _ranges("09AZaz"), "alpha": _ranges("AZaz"), "ascii": _ranges("\0\x7f"), "blank": _ranges("\t\t  "),
    "cntrl": _ranges("\0\x1f\x7f\x7f"), "digit": _ranges("09"), "graph": _ranges("!~"), "lower": _ranges("az"),
    "print": _ranges(" ~"), "punct": _ranges("!/:@[`{~"), "space": _ranges("\t\r  "), "upper": _ranges("AZ"),
    "word": _ranges("09AZ__az"), "xdigit": _ranges("09AFaf"),
}  # fmt: skip
_ESCAPE = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|([1-7][0-7]{1,2}|0[0-7]{0,2})|(.)", re.DOTALL)
_COUNT = re.compile(r"\{\d+(,\d*)?\}")
_GROUP = re.compile(r"\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)]))")


def translated(pattern: str) -> str:
    """The same in Python's syntax, for a match of the whole text."""
    return _Translation(pattern).result


def _complement(ranges: _Ranges) -> _Ranges:
    starts = [0, *[last + 1 for _, last in ranges]]
    ends = [*[first - 1 for first, _ in ranges], _LAST]
    return [(first, last) for first, last in zip(starts, ends) if first <= last]


def _members(ranges: _Ranges) -> str:
    return "".join("\\U%08x-\\U%08x" % pair for pair in ranges)


class _Translation:
    """One walk over a pattern. `groups` holds for each open group what flags were switched on inside of it: each opens a
    group of Python's own, which ends with the group, and at `|` is interrupted.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.groups: List[List[str]] = [[]]
        self.lines = [False]  # whether ^ and $ also mean lines, in each open group
        parts: List[str] = []
        while self.place < len(pattern):
            parts.append(self._next())
        if len(self.groups) > 1:
            self._refused("a missing )")
        self.result = "".join(parts) + ")" * len(self.groups[0])
        try:
            re.compile(self.result)
        except re.error as error:
            self._refused(str(error))

    def _refused(self, what: str) -> NoReturn:
        raise InvalidModelError("%r is no regular expression of RE2: %s" % (self.pattern, what))

    def _next(self) -> str:
        char = self.pattern[self.place]
        self.place += 1
        simple: Dict[str, Any] = {
            "\\": self._escaped, "[": self._class, "(": self._opened, ")": self._closed, "|": self._alternative,
            "$": lambda: "$" if self.lines[-1] else r"\Z", "{": self._count,
        }  # fmt: skip
        if char in "*+?" and self.pattern[self.place : self.place + 1] == "+":
            self._refused("two repetitions in a row")
        return str(simple[char]()) if char in simple else char

    def _count(self) -> str:
        """Braces that are no count stand for themselves."""
        found = _COUNT.match(self.pattern, self.place - 1)
        if found is None:
            return r"\{"
        self.place = found.end()
        return found.group()

    # -- characters ----------------------------------------------------------------------------------------------------
    def _escaped(self) -> str:
        rest = self.pattern[self.place :]
        if rest[:1] == "Q":
            text = rest[1:].split("\\E", 1)[0]
            self.place += min(len(text) + 3, len(rest))
            return re.escape(text)
        if rest[:1] in ("A", "z", "b", "B"):
            self.place += 1
            return {"A": r"\A", "z": r"\Z", "b": r"(?a:\b)", "B": r"(?a:\B)"}[rest[0]]
        return "[%s]" % _members(self._named())

    def _named(self) -> _Ranges:
        """What an escape stands for, inside of a class or not."""
        found = _ESCAPE.match(self.pattern, self.place)
        if found is None:
            self._refused(r"a trailing \ ")
        self.place = found.end()
        wide, narrow, octal, char = found.groups()
        if char is None:
            code = int(octal, 8) if octal is not None else int(wide or narrow, 16)
            return [(code, code)]
        if char.lower() in _PERL:
            return _PERL[char] if char in _PERL else _complement(_PERL[char.lower()])
        if char in "pPC":
            raise UnsupportedError("the reference does not know \\%s of RE2's regular expressions" % char)
        if char in "afnrtv":
            code = ord({"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}[char])
            return [(code, code)]
        if char.isalnum() and ord(char) < 128:
            self._refused("\\%s" % char)
        return [(ord(char), ord(char))]

    def _class(self) -> str:
        text = "["
        if self.pattern[self.place : self.place + 1] == "^":
            self.place += 1
            text += "^"
        first = True
        while first or self.pattern[self.place : self.place + 1] != "]":
            if self.place >= len(self.pattern):
                self._refused("a missing ]")
            text += self._member()
            first = False
        self.place += 1
        return text + "]"

    def _member(self) -> str:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.place)
        if posix is not None:
            self.place = posix.end()
            if posix.group(2) not in _POSIX:
                self._refused(posix.group())
            ranges = _POSIX[posix.group(2)]
            return _members(_complement(ranges) if posix.group(1) else ranges)
        low = self._one()
        end = self.pattern[self.place : self.place + 2]
        if len(low) == 1 and low[0][0] == low[0][1] and end[:1] == "-" and end[1:] not in ("", "]"):
            self.place += 1
            high = self._one()
            if len(high) != 1 or high[0][1] < low[0][0]:
                self._refused("a range that is none")
            low = [(low[0][0], high[0][1])]
        return _members(low)

    def _one(self) -> _Ranges:
        char = self.pattern[self.place]
        self.place += 1
        return self._named() if char == "\\" else [(ord(char), ord(char))]

    # -- groups --------------------------------------------------------------------------------------------------------
    def _opened(self) -> str:
        if self.pattern[self.place : self.place + 1] != "?":
            self._entered(self.lines[-1])
            return "(?:"
        found = _GROUP.match(self.pattern, self.place)
        if found is None:
            self._refused("the group (%s" % self.pattern[self.place : self.place + 3])
        self.place = found.end()
        _, on, off, end = found.groups()
        lines = (self.lines[-1] or "m" in (on or "")) and "m" not in (off or "")
        flags = "".join(flag for flag in on or "" if flag != "U")
        without = "".join(flag for flag in off or "" if flag != "U")
        opening = "(?%s%s:" % (flags, "-" + without if without else "")
        if end == ")":  # from here to the end of the group that is open
            self.groups[-1].append(opening)
            self.lines[-1] = lines
        else:
            self._entered(lines)
        return opening

    def _entered(self, lines: bool) -> None:
        self.groups.append([])
        self.lines.append(lines)

    def _closed(self) -> str:
        if len(self.groups) == 1:
            self._refused("a ) that closes nothing")
        self.lines.pop()
        return ")" * (len(self.groups.pop()) + 1)

    def _alternative(self) -> str:
        inside = self.groups[-1]
        return ")" * len(inside) + "|" + "".join(inside)

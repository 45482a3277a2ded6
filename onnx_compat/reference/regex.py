"""Translate regular expressions from the syntax of RE2 to the syntax of Python's `re`.

RE2 has no backreferences and no lookaround. Syntax that only Python accepts is refused, and so are the few features
that only RE2 has. Greedy and lazy repetitions match the same whole texts.
"""

import re
from typing import Any, Dict, List, NoReturn, Sequence, Tuple

from onnx_compat.errors import InvalidModelError, UnsupportedError

__all__ = ["translate"]

_Ranges = Sequence[Tuple[int, int]]
_LAST = 0x10FFFF


def _ranges(text: str) -> _Ranges:
    """Return the character ranges of a text of pairs, as code points: "09AZ" gives [(48, 57), (65, 90)]."""
    return [(ord(first), ord(last)) for first, last in zip(text[::2], text[1::2])]


_PERL = {"d": _ranges("09"), "s": _ranges("\t\n\f\r  "), "w": _ranges("09AZ__az")}
_POSIX = {
    "alnum": _ranges("09AZaz"), "alpha": _ranges("AZaz"), "ascii": _ranges("\0\x7f"), "blank": _ranges("\t\t  "),
    "cntrl": _ranges("\0\x1f\x7f\x7f"), "digit": _ranges("09"), "graph": _ranges("!~"), "lower": _ranges("az"),
    "print": _ranges(" ~"), "punct": _ranges("!/:@[`{~"), "space": _ranges("\t\r  "), "upper": _ranges("AZ"),
    "word": _ranges("09AZ__az"), "xdigit": _ranges("09AFaf"),
}  # fmt: skip
_MOST_REPEATED = 1000  # kMaxRepeat of RE2
_ESCAPE = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|([1-7][0-7]{1,2}|0[0-7]{0,2})|(.)", re.DOTALL)
_COUNT = re.compile(r"\{\d+(,\d*)?\}")
_GROUP = re.compile(r"\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)]))")


def translate(pattern: str) -> str:
    r"""Return the RE2 pattern in Python's syntax, for `fullmatch`.

    Raises InvalidModelError for a pattern that RE2 or Python's `re` does not accept, and UnsupportedError for the
    escapes \p, \P and \C.
    """
    return _Translation(pattern).result


def _complement(ranges: _Ranges) -> _Ranges:
    """Return the ranges of all code points outside `ranges`, which must ascend and not overlap."""
    starts = [0, *[last + 1 for _, last in ranges]]
    ends = [*[first - 1 for first, _ in ranges], _LAST]
    return [(first, last) for first, last in zip(starts, ends) if first <= last]


def _format_ranges(ranges: _Ranges) -> str:
    return "".join("\\U%08x-\\U%08x" % pair for pair in ranges)


class _Translation:
    """Translate a pattern of RE2 from left to right. `result` is the pattern in Python's syntax.

    - groups: for the pattern itself and for each open group, the flag groups "(?i:" that are open inside of it. RE2
      switches flags on until the end of the group. Python needs a group for the flags. This flag group is closed at
      the end of the group, and closed and opened again at `|`.
    - multiline: for the pattern itself and for each open group, whether ^ and $ also match at line ends.

    Raises InvalidModelError for a pattern that RE2 or Python's `re` does not accept. Raises UnsupportedError for an
    escape that this module cannot translate.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.groups: List[List[str]] = [[]]
        self.multiline = [False]
        parts: List[str] = []
        while self.position < len(pattern):
            parts.append(self._next())
        if len(self.groups) > 1:
            self._refuse("a missing )")
        self.result = "".join(parts) + ")" * len(self.groups[0])
        try:
            re.compile(self.result)
        except re.error as error:
            self._refuse(str(error))

    def _refuse(self, defect: str) -> NoReturn:
        raise InvalidModelError("%r is no regular expression of RE2: %s" % (self.pattern, defect))

    def _next(self) -> str:
        char = self.pattern[self.position]
        self.position += 1
        simple: Dict[str, Any] = {
            "\\": self._escape, "[": self._character_class, "(": self._open_group, ")": self._close_group, "|": self._alternative,
            "$": lambda: "$" if self.multiline[-1] else r"\Z", "{": self._count,
        }  # fmt: skip
        if char in "*+?" and self.pattern[self.position : self.position + 1] == "+":
            self._refuse("two repetitions in a row")
        return str(simple[char]()) if char in simple else char

    def _count(self) -> str:
        """Translate the brace before the position: a repetition count like {2,3} stays; other braces are literals."""
        match = _COUNT.match(self.pattern, self.position - 1)
        if match is None:
            return r"\{"
        self.position = match.end()
        if any(int(count) > _MOST_REPEATED for count in re.findall(r"\d+", match.group())):
            self._refuse("a repetition of more than %d" % _MOST_REPEATED)
        if self.pattern[self.position : self.position + 1] == "+":  # possessive in Python 3.11
            self._refuse("two repetitions in a row")
        return match.group()

    # -- characters ----------------------------------------------------------------------------------------------------
    def _escape(self) -> str:
        rest = self.pattern[self.position :]
        if rest[:1] == "Q":
            text = rest[1:].split("\\E", 1)[0]
            self.position += min(len(text) + 3, len(rest))
            return re.escape(text)
        if rest[:1] in ("A", "z", "b", "B"):
            self.position += 1
            return {"A": r"\A", "z": r"\Z", "b": r"(?a:\b)", "B": r"(?a:\B)"}[rest[0]]
        return "[%s]" % _format_ranges(self._escape_ranges())

    def _escape_ranges(self) -> _Ranges:
        r"""Return the ranges of the characters that an escape sequence matches, inside or outside of a class.

        The position is after the backslash, and is set behind the sequence. Raises InvalidModelError for an unknown
        escape and for a backslash at the end of the pattern. Raises UnsupportedError for \p, \P and \C.
        """
        match = _ESCAPE.match(self.pattern, self.position)
        if match is None:
            self._refuse(r"a trailing \ ")
        self.position = match.end()
        wide, narrow, octal, char = match.groups()
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
            self._refuse("\\%s" % char)
        return [(ord(char), ord(char))]

    def _character_class(self) -> str:
        text = "["
        if self.pattern[self.position : self.position + 1] == "^":
            self.position += 1
            text += "^"
        first = True
        while first or self.pattern[self.position : self.position + 1] != "]":
            if self.position >= len(self.pattern):
                self._refuse("a missing ]")
            text += self._class_member()
            first = False
        self.position += 1
        return text + "]"

    def _class_member(self) -> str:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.position)
        if posix is not None:
            self.position = posix.end()
            if posix.group(2) not in _POSIX:
                self._refuse(posix.group())
            ranges = _POSIX[posix.group(2)]
            return _format_ranges(_complement(ranges) if posix.group(1) else ranges)
        low = self._character()
        end = self.pattern[self.position : self.position + 2]
        if len(low) == 1 and low[0][0] == low[0][1] and end[:1] == "-" and end[1:] not in ("", "]"):
            self.position += 1
            high = self._character()
            if len(high) != 1 or high[0][1] < low[0][0]:
                self._refuse("a range whose end is before its start")
            low = [(low[0][0], high[0][1])]
        return _format_ranges(low)

    def _character(self) -> _Ranges:
        char = self.pattern[self.position]
        self.position += 1
        return self._escape_ranges() if char == "\\" else [(ord(char), ord(char))]

    # -- groups --------------------------------------------------------------------------------------------------------
    def _open_group(self) -> str:
        if self.pattern[self.position : self.position + 1] != "?":
            self._enter_group(self.multiline[-1])
            return "(?:"
        match = _GROUP.match(self.pattern, self.position)
        if match is None:
            self._refuse("the group (%s" % self.pattern[self.position : self.position + 3])
        self.position = match.end()
        _, on, off, end = match.groups()
        multiline = (self.multiline[-1] or "m" in (on or "")) and "m" not in (off or "")
        flags = "".join(flag for flag in on or "" if flag != "U")
        disabled_flags = "".join(flag for flag in off or "" if flag != "U")
        opening = "(?%s%s:" % (flags, "-" + disabled_flags if disabled_flags else "")
        if end == ")":  # the flags hold until the end of the open group
            self.groups[-1].append(opening)
            self.multiline[-1] = multiline
        else:
            self._enter_group(multiline)
        return opening

    def _enter_group(self, multiline: bool) -> None:
        self.groups.append([])
        self.multiline.append(multiline)

    def _close_group(self) -> str:
        if len(self.groups) == 1:
            self._refuse("a ) that closes nothing")
        self.multiline.pop()
        return ")" * (len(self.groups.pop()) + 1)

    def _alternative(self) -> str:
        inside = self.groups[-1]
        return ")" * len(inside) + "|" + "".join(inside)

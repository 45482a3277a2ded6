"""Templates of operators on strings. Selection of strings is in `shapes` and `indexing`."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from matrix.fuzz.draft import MOVE
from matrix.fuzz.draw import Draw
from matrix.fuzz.graphs import element_type
from matrix.fuzz.registry import template
from matrix.fuzz.values import Value


def texts(draw: Draw) -> Value:
    """Return a value of strings: a value of the draft, or sometimes a new operand.

    Raises Rejected if the draft has no strings.
    """
    if draw.chance(0.25):
        return draw.fresh([(draw.integer(1, 4),)] * draw.shared.worlds, "object")
    return draw.pick(("object",))


@template("StringConcat", 1, 20)
def string_concat(draw: Draw) -> None:
    """Add a concatenation of strings."""
    x = texts(draw)
    draw.node("StringConcat", [x, draw.broadcastable(x)], MOVE)


@template("StringNormalizer", 0.6)
def string_normalizer(draw: Draw) -> None:
    """Add a StringNormalizer of a new input. It changes letters to upper or lower case, or nothing.

    It has no stop words, because these change the size.
    """
    words = np.array(draw.rng.sample(["a", "Hello", "UPPER", "x y"], 3), object)
    x = draw.add_input([words] * draw.shared.worlds)
    action = draw.choice(["LOWER", "UPPER", "NONE"])
    draw.node("StringNormalizer", [x], MOVE, case_change_action=action, locale="C")


@template("RegexFullMatch", 0.6, 20)
def regex_full_match(draw: Draw) -> None:
    """Add a RegexFullMatch with one of a few patterns."""
    draw.node("RegexFullMatch", [texts(draw)], MOVE, pattern=draw.choice(["a.*", "[a-z]+", r"\d+", ".*o", ""]))


@template("StringSplit", 0.5, 20)
def string_split(draw: Draw) -> None:
    """Add a StringSplit, whose outputs are the parts and their number."""
    draw.nodes(
        "StringSplit", [texts(draw)], 2, MOVE, delimiter=draw.choice([None, ",", " "]), maxsplit=draw.choice([None, 1])
    )


@template("Equal-strings", 0.6, 19)
def equal(draw: Draw) -> None:
    """Add a comparison of strings."""
    x = texts(draw)
    draw.node("Equal", [x, draw.broadcastable(x)], MOVE)


@template("Cast-to-string", 0.5)
def to_string(draw: Draw) -> None:
    """Add a Cast of integers to strings."""
    draw.node("Cast", [draw.pick(("int64", "int32"))], MOVE, to=element_type("object"))


@template("Strings", 0.5)
def strings(draw: Draw) -> None:
    """Add a Transpose of a new matrix of strings."""
    shape = (draw.integer(1, 3), draw.integer(1, 3))
    x = draw.fresh([shape] * draw.shared.worlds, "object")
    draw.node("Transpose", [x], MOVE, perm=[1, 0])


@template("LabelEncoder", 0.4)
def label_encoder(draw: Draw) -> None:
    """Add a LabelEncoder from strings to integers."""
    given: Dict[str, Any] = {
        "keys_strings": ["a", "b", "Hello", ""],
        "values_int64s": [3, 1, 4, 1],
        "default_int64": -1,
    }
    draw.nodes("LabelEncoder", [texts(draw)], 1, MOVE, domain="ai.onnx.ml", **given)

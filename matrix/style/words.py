"""The words that the style check bans, each with the words that it suggests."""

from __future__ import annotations

import re

__all__ = ["FIRST_WORDS", "IDENTIFIERS", "PARTICIPLES", "PHRASES", "RESULT_VERBS", "is_participle"]

#: Banned name -> suggestion. A local, a parameter, an attribute or a function of this name is reported.
IDENTIFIERS = {
    "all_that": "name the values",
    "asked": "requested_<noun>, or the noun",
    "each": "the singular noun: node, value, path",
    "found": "the noun: match, producer, result",
    "made": "the noun: program, node, file",
    "nobody": "a predicate: has_no_readers",
    "one": "the noun: port, node, value_info",
    "ones": "the noun in the plural",
    "other": "the noun: rhs, operand, other_<noun>",
    "others": "the noun in the plural: other_<nouns>",
    "place": "index, position, offset, axis",
    "places": "indices, positions, offsets, axes",
    "said": "text, message, answer",
    "so": "the noun",
    "such": "the noun",
    "taken": "selected_<noun>, used_<noun>",
    "told": "text, declared_<noun>, given_<noun>",
    "turned": "transposed_<noun>, permuted_<noun>",
    "what": "description, subject, kind",
}

#: Words that begin no docstring: pronouns, relative clauses and prepositions hide the verb.
FIRST_WORDS = frozenset(
    "as behind beside from how it nobody of one ones others so such that these they those what whatever where which"
    " who whoever whose".split()
)

#: Verbs whose object is the result of the function: "Convert x to y", "Format a number". Other verbs need "Return".
RESULT_VERBS = frozenset(
    "Bitcast Broadcast Build Cast Clip Compile Compute Concatenate Convert Convolve Create Decode Decorate Derive Divide"
    " Emit Encode Escape Estimate Format Gather Generate Infer Insert Join Load Map Multiply Normalize Open Pack Pad Parse"
    " Permute Pool Reduce Reinterpret Repeat Reshape Reverse Rotate Round Shift Slice Split Stack Subtract Swap"
    " Translate Transpose View".split()
)

#: Past participles that do not end in -ed.
_IRREGULAR = frozenset(
    "bent bound brought built cut done drawn driven fallen found given gone held hidden kept known laid left lost made"
    " meant met put read rewritten said seen sent set shown shrunk split spread sunk swept taken thrown told torn trodden"
    " understood undone unwound withdrawn written".split()
)
#: Verbs, nouns and adjectives that look like participles.
_NOT_PARTICIPLES = frozenset(
    "bound cut embed exceed feed key_seed need proceed put read seed set shed speed split spread".split()
)

PARTICIPLES = _IRREGULAR - _NOT_PARTICIPLES

#: Regular expression of a metaphor or circumlocution -> the standard term.
PHRASES = {
    r"nobody": "no operator, no caller",
    r"a room|rooms|the house|doors?": "module, package, interface",
    r"manners?": "runtime quirk",
    r"fates?": "outcome",
    r"seams?": "interface",
    r"neighbou?rs?": "the adjacent <noun>, the nearest entry",
    r"handed on|hands on": "returned, passed",
    r"as it lies|as they lie": "in storage order",
    r"such a one|(?:is|are) (?!(?-i:None))none": "name the thing",  # None is a value of Python
    r"all that": "every <noun>",
    r"lets? go of": "release",
}


def is_participle(name: str) -> bool:
    """Whether a function name is a single past participle, such as `handed` or `_kept`."""
    word = name.strip("_")
    if "_" in word or word in _NOT_PARTICIPLES:
        return False
    return word in PARTICIPLES or bool(re.fullmatch(r"[a-z]{2,}ed", word))

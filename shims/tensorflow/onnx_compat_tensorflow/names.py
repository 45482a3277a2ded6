"""Convert ONNX names, which may contain any character, to names that TensorFlow accepts."""

import re
from typing import Dict, Iterable, List, Set

__all__ = ["argument_names", "operation_names", "scope"]


def scope(name: str) -> str:
    """Return a valid TensorFlow name scope for a node's name: "a b/c" => "a_b/c".

    - Characters other than ASCII letters, digits and "_./-" become "_".
    - Slashes at the ends are removed, and repeated slashes merged.
    - If the result does not begin with a letter, a digit or a dot, "node" is prepended: "" => "node".
    """
    cleaned = re.sub(r"/+", "/", re.sub(r"[^A-Za-z0-9_./-]", "_", name)).strip("/")
    return cleaned if re.match(r"[A-Za-z0-9.]", cleaned) else "node" + cleaned


def operation_names(names: Iterable[str]) -> Dict[str, str]:
    """Return a dict {name: operation name} with distinct operation names that TensorFlow accepts.

    TensorFlow accepts ASCII letters, digits and "_./-", and compares names without regard to case.

    - Other characters become "_".
    - A name that does not begin with a letter gets the prefix "value".
    - A repeated name gets a number: "x" and "X" become "x" and "X_1".
    - Names with other characters are assigned last: "a b" and "a_b" become "a_b_1" and "a_b".

    Every other name is unchanged.
    """
    return _distinct(names, r"[^A-Za-z0-9_./-]", "value")


def argument_names(names: Iterable[str]) -> Dict[str, str]:
    """Return a dict {name: Python argument name} with argument names that are distinct, also without regard to case.

    - Characters other than ASCII letters, digits and "_" become "_".
    - A name that does not begin with a letter gets the prefix "input_".
    - A repeated name gets a number: "x" and "X" become "x" and "X_1".
    - Names with other characters are assigned last: "a b" and "a_b" become "a_b_1" and "a_b".

    Every other name is unchanged, also a Python keyword.
    """
    return _distinct(names, r"[^A-Za-z0-9_]", "input_")


def _distinct(names: Iterable[str], foreign: str, prefix: str) -> Dict[str, str]:
    """Return a dict {name: accepted name}, as `operation_names` and `argument_names` describe.

    foreign: a regular expression of the characters that become "_".
    prefix: put before a name that does not begin with a letter.
    """
    wanted: List[str] = list(names)
    assigned: Dict[str, str] = {}
    used_names: Set[str] = set()
    for name in sorted(wanted, key=lambda name: re.search(foreign, name) is not None):  # names that can stay first
        plain = re.sub(foreign, "_", name)
        if not re.match(r"[A-Za-z]", plain):
            plain = prefix + plain
        unique, count = plain, 1
        while unique.lower() in used_names:
            unique, count = "%s_%d" % (plain, count), count + 1
        used_names.add(unique.lower())
        assigned[name] = unique
    return {name: assigned[name] for name in wanted}

"""Changes of bytes: of any file, and of the members of an archive, whose checksums are then written again."""

from __future__ import annotations

import io
import random
import re
import zipfile
from typing import List, Sequence

__all__ = ["corrupt", "corrupt_archive"]

#: Values of a field at which code changes its behaviour: signs, and numbers around powers of two.
_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
_WORDS = (b"", b"-1", b"0", b"1e400", b"null", b"[]", b"{}", b"true", b'"\\ud800"', b"9" * 400, b"[" * 400, b"\xff\xfe")
_LARGEST = 1 << 20


def corrupt(chance: random.Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    """Return `data` after one to eight random changes, cut to at most 1 MiB. A change sometimes changes no byte.

    `other_files`: files of the same kind, whose bytes are sometimes copied.
    """
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 8))):
        _change(chance, changed, other_files)
    return bytes(changed[:_LARGEST])


def _change(chance: random.Random, data: bytearray, other_files: Sequence[bytes]) -> None:
    """Replace, delete, repeat or insert bytes at a random position of `data`, or change none."""
    at = chance.randrange(len(data) + 1)
    size = min(chance.choice((1, 1, 2, 4, 8, 16, 64)), len(data) - at)
    choice = chance.randrange(7)
    if choice == 0 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif choice == 1 and at < len(data):
        data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    elif choice == 2:
        width = chance.choice((2, 4, 8))
        data[at : at + width] = (chance.choice(_EDGES) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    elif choice == 3:
        del data[at : at + size]
    elif choice == 4:
        data[at:at] = data[at : at + size] * chance.choice((1, 1, 2, 50))
    elif choice == 5 and other_files:
        other_file = chance.choice(other_files)
        start = chance.randrange(len(other_file) + 1)
        data[at : at + size] = other_file[start : start + chance.choice((1, 4, 16, 64, 256))]
    elif choice == 6:
        data[at : at + chance.choice((0, size))] = chance.choice(_WORDS)


def corrupt_archive(chance: random.Random, data: bytes, other_files: Sequence[bytes]) -> bytes:
    """Return a zip archive in which one member is changed, dropped, doubled or renamed. The checksums are valid.

    In a member of JSON, a whole word is sometimes replaced. Sometimes, and if `data` is no readable archive, the result
    is that of `corrupt`.
    """
    if chance.random() < 0.3:
        return corrupt(chance, data, other_files)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # noqa: BLE001 - an archive that an earlier change damaged is changed as bytes
        return corrupt(chance, data, other_files)
    if members:
        _change_members(chance, members)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def _change_members(chance: random.Random, members: List[tuple[str, bytes]]) -> None:
    """Change, drop, double or rename one of `members`, which are pairs (name, content)."""
    index = chance.randrange(len(members))
    name, content = members[index]
    choice = chance.randrange(10)
    if choice == 0:
        del members[index]
    elif choice == 1:
        members.append(members[index])
    elif choice == 2:
        members[index] = (chance.choice((name + "x", "../" + name, "/" + name, "", "a/" * 50, name.upper())), content)
    elif choice < 6 and content[:1] in (b"{", b"["):
        members[index] = (name, _change_word(chance, content))
    else:
        members[index] = (name, corrupt(chance, content, [other_file for _, other_file in members]))


def _change_word(chance: random.Random, text: bytes) -> bytes:
    """Return a text in which one quoted word, number, constant or empty bracket pair is replaced.

    The replacement is a fixed word or another word of the text. A text without a word stays as it is.
    """
    words = list(re.finditer(rb'"[^"]*"|-?\d+|\[\]|\{\}|true|false|null', text))
    if not words:
        return text
    word = chance.choice(words)
    replacement = chance.choice((*_WORDS, chance.choice(words).group(), b'"' + chance.choice(_WORDS[1:9]) + b'"'))
    return text[: word.start()] + replacement + text[word.end() :]

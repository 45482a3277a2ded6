"""Escape control characters in text that comes from a file."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return the text with Python escapes for all characters that are not printable, except line feeds.

    Tabs and carriage returns are escaped too. A terminal would execute control characters, and a page would change its
    text direction.
    """
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)

"""Escape control characters in text that comes from a file."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return the text with Python escapes for all characters that are not printable, except line feeds.

    Tabs, carriage returns and no-break spaces are escaped too. The cause: a terminal executes control characters, and
    bidirectional controls reorder the text of a page.
    """
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)

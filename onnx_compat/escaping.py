"""Text that comes from a file, as text that does nothing."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """Without what a terminal would take for a command, or a page for a change of direction; lines stay."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)

"""Summarize runnable objects in one line, for their `repr`."""

from typing import Optional, Sequence

from onnx_compat.escaping import printable
from onnx_compat.model import ValueInfo

__all__ = ["summarize"]

_MOST_PORTS = 4


def summarize(
    kind: str,
    name: str,
    shim: str,
    inputs: Sequence[ValueInfo],
    outputs: Sequence[ValueInfo],
    device: Optional[str] = None,
    fallbacks: int = 0,
) -> str:
    """Return a text such as `<Runnable 'digits.onnx' on tf2, gpu:0: image float32[batch, 28] -> scores float32[10]>`.

    - kind: the name of the class. name: the path of the file, or the name of the graph.
    - device: the device; None is left out.
    - fallbacks: the number of nodes that run in the fallback; 0 is left out.

    Of many inputs or outputs, the first four are listed. Control characters are escaped.
    """
    location = shim if device is None else "%s, %s" % (shim, device)
    text = "%s '%s' on %s: %s -> %s" % (kind, name, location, _list_ports(inputs), _list_ports(outputs))
    if fallbacks:
        text += ", %d node%s in the fallback" % (fallbacks, "" if fallbacks == 1 else "s")
    return "<%s>" % printable(text).replace("\n", "\\n")


def _list_ports(ports: Sequence[ValueInfo]) -> str:
    listed = ["%s %s" % (port.name, port.type or "?") for port in ports[:_MOST_PORTS]]
    more = len(ports) - len(listed)
    return ", ".join(listed + (["and %d more" % more] if more else [])) or "nothing"

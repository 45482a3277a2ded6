"""Native operators: functions of a shim that implement an ONNX operator as a whole."""

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

__all__ = ["Native", "declared_natives", "native"]


class Native(NamedTuple):
    """An ONNX operator that a shim implements as a whole (see `native`). `method` is its name in the emitter."""

    accepts: Callable[..., bool]
    method: str
    spatial: bool
    stored: Optional[Tuple[int, ...]] = None


def native(
    operator: str,
    accepts: Optional[Callable[..., bool]] = None,
    domain: str = "",
    spatial: bool = False,
    available: Optional[Callable[[Any], bool]] = None,
    stored: Optional[Tuple[int, ...]] = None,
) -> Callable[[Any], Any]:
    """Declare a method of an emitter as a native operator. Where it does not apply, the composed meaning is used.

    The method gets the handles of the inputs, and the attributes by name. It returns the results in order; it may omit
    trailing results that no node reads.

    operator, domain: the ONNX operator.
    accepts: `accepts(node, inputs, attributes)` says whether the method can compute a node. `inputs` are Tensors, or
        None for an omitted input. In `node.outputs`, outputs that no node reads have no name.
    spatial: whether the first input and output are images in the shim's layout.
    available: `available(emitter)` says whether the installed framework can run the method.
    stored: the order of axes of the first output. All other tensors are in the logical order.
    """

    def declare(method: Any) -> Any:
        method.native = (domain, operator, accepts or (lambda *_: True), spatial, available, stored)
        return method

    return declare


def declared_natives(emitter: Any) -> Dict[Tuple[str, str], Native]:
    """Return the natives that an emitter's class declares, and that the installed framework can run."""
    natives = {}
    for name in dir(type(emitter)):
        declared = getattr(getattr(type(emitter), name), "native", None)
        if isinstance(declared, tuple):
            domain, operator, accepts, spatial, available, stored = declared
            if available is None or available(emitter):
                natives[domain, operator] = Native(accepts, name, spatial, stored)
    return natives

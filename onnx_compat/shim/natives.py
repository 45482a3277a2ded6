"""Native operators: functions of a shim that implement an ONNX operator as a whole."""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

__all__ = ["Native", "declared_natives", "native", "natives_of"]


class Native(NamedTuple):
    """An ONNX operator that a shim implements as a whole.

    `method` is the name of the emitter's method. `accepts`, `spatial` and `stored` are the arguments of `native`.

    keeps: whether a node with these inputs is recorded even if its results are known. Its results then count as unknown.
    """

    accepts: Callable[..., bool]
    method: str
    spatial: bool
    stored: Optional[Tuple[int, ...]] = None
    keeps: Callable[[Sequence[Any]], bool] = lambda inputs: False


def native(
    operator: str,
    accepts: Optional[Callable[..., bool]] = None,
    domain: str = "",
    spatial: bool = False,
    available: Optional[Callable[[Any], bool]] = None,
    stored: Optional[Tuple[int, ...]] = None,
) -> Callable[[Any], Any]:
    """Return a decorator that declares a method of an emitter as a native operator, and returns the method itself.

    The method gets the handles of the inputs, None for an omitted input, and the attributes that the node has by name.
    It returns the results in order, up to the last result that is read; more results are ignored. The operator is
    composed if the native does not accept the node, or if a result is known (see `Interpreter`).

    operator, domain: the ONNX operator.
    accepts: `accepts(node, inputs, attributes)` says whether the method can compute a node. `inputs` are Tensors, or
        None for an omitted input. In `node.outputs`, an output that is not read has the name "", unless the node has
        a single output. By default every node is accepted.
    spatial: whether the first input, and a first output of rank 3 or more, are images in the shim's layout.
    available: `available(emitter)` says whether the installed framework can run the method; by default it can.
    stored: the order of axes of the first output, if `spatial` does not apply. All other tensors are in the logical
        order. None is the logical order.
    """

    def declare(method: Any) -> Any:
        method.native = (domain, operator, accepts or (lambda *_: True), spatial, available, stored)
        return method

    return declare


def declared_natives(emitter: Any) -> Dict[Tuple[str, str], Native]:
    """Return a dict (domain, operator) -> `Native` of an emitter's methods that the decorator `native` declares.

    Methods whose `available(emitter)` is False are left out. Of two methods for one operator, the last by name counts.
    """
    return natives_of({name: getattr(type(emitter), name) for name in dir(type(emitter))}, emitter)


def natives_of(functions: Mapping[str, Any], emitter: Any) -> Dict[Tuple[str, str], Native]:
    """Return (domain, operator) -> `Native` for the functions that the decorator `native` declares.

    `functions` maps the name of a method to the method. Functions that `native` does not declare are left out, and so
    are those whose `available(emitter)` is False. Of two functions for one operator, the last counts.
    """
    natives = {}
    for name, function in functions.items():
        declared = getattr(function, "native", None)
        if isinstance(declared, tuple):
            domain, operator, accepts, spatial, available, stored = declared
            if available is None or available(emitter):
                natives[domain, operator] = Native(accepts, name, spatial, stored)
    return natives

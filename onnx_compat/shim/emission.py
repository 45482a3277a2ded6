"""From recorded nodes to a framework's own: a walk over the nodes that calls one method of the shim's emitter for each.

With an emitter whose tensors are concrete, the same walk is an execution.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import OnnxCompatError, TargetError, UnsupportedError
from onnx_compat.ir import Const, Extents, Node, Ref, Region, Spec, is_verifying
from onnx_compat.ir.dims import Atom, Dim, Extent, is_static

__all__ = ["Sizes", "check_primitives", "check_target", "emission_errors", "emit", "execute"]


class Sizes:
    """A list of sizes, as an emitter's method gets it: ask for the form that the framework can use."""

    def __init__(self, dims: Sequence[Extent], walk: "_Walk") -> None:
        self.dims = tuple(dims)  # ints and Dims, to compare with the specs of the node
        self._walk = walk

    def __len__(self) -> int:
        return len(self.dims)

    def also(self, dims: Sequence[Extent]) -> "Sizes":
        """Other sizes of the same program: those of a result, say, from `emitter.node`."""
        return Sizes(dims, self._walk)

    @property
    def known(self) -> Optional[Tuple[int, ...]]:
        """All of them as ints; None when one is only known inside the framework."""
        values = [self._walk.size(dim) for dim in self.dims] if self._walk.emitter.concrete else self.dims
        ints = [int(v) for v in values if isinstance(v, (int, np.integer))]
        return tuple(ints) if len(ints) == len(self.dims) else None

    @property
    def with_wildcard(self) -> Optional[Tuple[int, ...]]:
        """As ints with -1 in the place of a single unknown (as Reshape takes it); None when there are more."""
        known = self.known
        if known is not None:
            return known
        unknown = [dim for dim in self.dims if not is_static(dim)]
        if len(unknown) > 1 or any(is_static(dim) and dim == 0 for dim in self.dims):
            return None
        return tuple(int(dim) if is_static(dim) else -1 for dim in self.dims)

    @property
    def scalars(self) -> List[Any]:
        """Each as an int, or as a scalar tensor of the emitter's index dtype."""
        return [self._walk.size(dim) for dim in self.dims]

    @property
    def tensor(self) -> Any:
        """All of them as one vector of the emitter's index dtype."""
        return self._walk.vector(self.dims)


def emit(region: Region, emitter: Any, handles: Sequence[Any]) -> List[Any]:
    """Emit the region's live nodes for these inputs; return a handle for each of its outputs. Raises TargetError if the
    region was recorded for another target.
    """
    check_target(region, emitter)
    if region.target is not None and is_verifying():
        from onnx_compat.ir.verifier import verify_region

        verify_region(region)
    return _Walk(emitter, {}).region(region, handles)


def check_target(region: Region, emitter: Any) -> None:
    """Raise TargetError if the region was recorded for another target than the emitter's."""
    if region.target is not None and region.target != emitter.target:
        raise TargetError(
            "the program was recorded for %s; this emitter needs %s" % (region.target, emitter.target),
            hint="record the model with an emitter of the shim that compiles it: record(function, inputs, shim.emitter())",
        )


def check_primitives(region: Region, emitter: Any) -> None:
    """Every primitive that the region needs has its method."""
    for node in region.live():
        if node.primitive != "extents" and not hasattr(emitter, node.primitive):
            raise _located(UnsupportedError(_NOT_OFFERED % node.primitive), node)
        for inner in node.regions:
            check_primitives(inner, emitter)


_NOT_OFFERED = "the shim does not offer the primitive '%s'"


class _Refused:
    """In the place of a handle that the framework cannot hold; whatever reads it fails with the reason."""

    def __init__(self, error: OnnxCompatError) -> None:
        self.error = error


def emission_errors(region: Region, emitter: Any) -> Dict[str, OnnxCompatError]:
    """Emit what can be emitted, in a scratch place: the errors by the name of the ONNX node that they came from ("" if
    from none: an input that has to be put in order).
    """
    walk = _Walk(emitter, {})
    walk.failed = {}
    walk.region(region, [walk.stand_in(ref) for ref in region.inputs])
    return walk.failed


def execute(node: Node, emitter: Any) -> None:
    """Run one node at once: its arguments' handles are on their refs, and so will its results' be."""
    walk = _Walk(emitter, {})
    walk.node(node)
    for ref in node.outputs:
        ref.handle = walk.env[ref]
        ref.spec = Spec(ref.spec.dtype, tuple(emitter.shape(ref.handle)))


class _Walk:
    """The handles of one region: what each recorded value and each symbolic size is in the framework."""

    def __init__(self, emitter: Any, env: Dict[Ref, Any]) -> None:
        self.emitter = emitter
        self.env = env
        self.failed: Optional[Dict[str, OnnxCompatError]] = None  # errors are collected here, if anywhere
        self._sizes: Dict[Atom, Any] = {}

    def region(self, region: Region, handles: Sequence[Any]) -> List[Any]:
        self.env.update(zip(region.inputs, handles))
        for node, spent in zip(region.live(), region.spent()):
            try:
                self.node(node)
            except OnnxCompatError as error:
                if self.failed is None:
                    raise
                self.failed.setdefault(node.origin.node if node.origin is not None else "", error)
                self.env.update((ref, self.stand_in(ref)) for ref in node.outputs)
            if self.emitter.concrete:  # what nobody reads any more is memory
                for ref in spent:
                    self.env.pop(ref, None)
        return [] if self.failed is not None else [self.argument(output) for output in region.outputs]

    def node(self, node: Node) -> None:
        emitter = self.emitter
        emitter.node = node
        try:
            if node.primitive == "extents":
                results: Any = self._extents(node)
            else:
                method = getattr(emitter, node.primitive, None)
                if method is None:
                    raise UnsupportedError(_NOT_OFFERED % node.primitive)
                args = [self.argument(arg) for arg in node.args]
                if node.regions:
                    bodies = [self._body(region) for region in node.regions]
                    captures = list(dict.fromkeys(ref for region in node.regions for ref in region.captures()))
                    params = dict(node.params, bodies=bodies, captures=[self.argument(ref) for ref in captures])
                    for body in bodies:
                        body.captures = captures  # type: ignore[attr-defined]
                else:
                    params = node.params
                results = method(*args, **params)
            if len(node.outputs) == 1 and not isinstance(results, tuple):
                results = (results,)
            for ref, value in zip(node.outputs, results):
                self.env[ref] = handle = emitter.finish(value, ref.spec.dtype)
                if ref.name is not None:
                    emitter.called(handle, ref.name)
        except OnnxCompatError as error:
            raise _located(error, node) from error.__cause__
        except Exception as error:
            reason = "the framework refused the primitive '%s': %s" % (node.primitive, _first_line(error))
            raise _located(UnsupportedError(reason), node) from error

    def _body(self, region: Region) -> Callable[..., List[Any]]:
        """The region as a function of its inputs, then of what it captures (the same handles may be passed through)."""

        def body(*handles: Any) -> List[Any]:
            inputs, captured = handles[: len(region.inputs)], handles[len(region.inputs) :]
            inner = _Walk(self.emitter, dict(self.env))
            inner.env.update(zip(body.captures, captured))  # type: ignore[attr-defined]
            return inner.region(region, inputs)

        return body

    def stand_in(self, ref: Ref) -> Any:
        """A handle of an unknown value of this type."""
        try:
            return self.emitter.placeholder(ref.spec)
        except UnsupportedError as error:
            return _Refused(error)

    # -- arguments -----------------------------------------------------------------------------------------------------
    def argument(self, arg: Any) -> Any:
        if isinstance(arg, Ref):
            handle = self.env.get(arg, arg.handle)
            if isinstance(handle, _Refused):
                raise UnsupportedError(handle.error.reason, hint=handle.error.hint)
            return handle
        if isinstance(arg, Const):
            return self.emitter.constant(arg.array, arg.spec.dtype)
        if isinstance(arg, Extents):
            return Sizes(arg.dims, self)
        if isinstance(arg, tuple):
            return [self.argument(item) for item in arg]
        return arg

    def size(self, dim: Extent) -> Any:
        """A size as an int, or as a scalar of the emitter's index dtype."""
        if not isinstance(dim, Dim):
            return int(dim)
        total: Any = None
        for monomial, factor in dim.terms.items():
            product: Any = None
            for atom in monomial:
                value = self._atom(atom)
                product = value if product is None else self._apply("mul", product, value)
            term = factor if product is None else product if factor == 1 else self._apply("mul", product, factor)
            total = term if total is None else self._apply("add", total, term)
        return total

    def _atom(self, atom: Atom) -> Any:
        if atom not in self._sizes:
            if atom.kind == "axis":
                value = self.emitter.dim(self.argument(atom.args[0]), atom.args[1])
            elif atom.kind == "element":
                value = self.emitter.element(self.argument(atom.args[0]), atom.args[1])
            else:
                value = self._apply(atom.kind, self.size(atom.args[0]), self.size(atom.args[1]))
            self._sizes[atom] = value
        return self._sizes[atom]

    def _apply(self, operation: str, a: Any, b: Any) -> Any:
        python = {
            "add": lambda: a + b,
            "mul": lambda: a * b,
            "floordiv": lambda: a // b,
            "mod": lambda: a % b,
            "max": lambda: max(a, b),
            "min": lambda: min(a, b),
        }
        if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
            return python[operation]()
        method = {"max": "maximum", "min": "minimum", "mod": "mod", "floordiv": "floordiv"}.get(operation, operation)
        return getattr(self.emitter, method)(*self.emitter.promoted(self._scalar(a), self._scalar(b)))

    def _scalar(self, value: Any) -> Any:
        return self._known(value) if isinstance(value, (int, np.integer)) else value

    def _known(self, values: Any) -> Any:
        """Known sizes as a constant. Raises UnsupportedError for a size that the index dtype does not hold."""
        index = self.emitter.index_dtype
        exact = np.asarray(values, np.int64)
        array = exact.astype(index.numpy)
        if not np.array_equal(array, exact):
            raise UnsupportedError("a size of %d is beyond %s" % (max(exact.reshape(-1).tolist(), key=abs), index))
        return self.emitter.constant(array, index)

    def vector(self, dims: Sequence[Extent]) -> Any:
        values = [self.size(dim) for dim in dims]
        if all(isinstance(v, (int, np.integer)) for v in values):
            return self._known(values)
        return self.emitter.stack([self._scalar(v) for v in values])

    def _extents(self, node: Node) -> Any:
        shape, dtype = node.params["shape"], node.params["dtype"]
        vector = self.vector(node.args[0].dims)  # type: ignore[union-attr]
        if dtype != self.emitter.index_dtype:
            vector = self.emitter.cast(vector, dtype)
        return vector if len(shape) == 1 else self.emitter.reshape(vector, Sizes(shape, self))


def _located(error: OnnxCompatError, node: Node) -> OnnxCompatError:
    if node.origin is None:
        return error
    return error.at(node=node.origin.node, operator=node.origin.operator, opset=node.origin.opset)


def _first_line(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, (str(error).strip().splitlines() or [""])[0])

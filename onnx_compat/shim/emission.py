"""Emit recorded nodes: walk over the nodes, and apply the primitive of each with the shim's emitter.

If the tensors of the emitter are concrete, the walk executes the nodes.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.discovery.diagnosis import error_line
from onnx_compat.errors import OnnxCompatError, TargetError, UnsupportedError
from onnx_compat.ir import Arg, Const, Extents, Node, Ref, Region, Spec, is_verifying
from onnx_compat.ir.dims import Atom, Dim, Extent, is_static

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Emitter

Handle = Any  # a tensor of a framework: the core knows no framework
__all__ = ["Sizes", "check_primitives", "check_target", "emission_errors", "emit", "execute"]


class Sizes:
    """A list of sizes as an argument of a primitive, in the forms that frameworks can use.

    `dims` holds the sizes as ints and `Dim`s, to compare them with the types of the node. The argument `emitter` is the
    emitter of the node (see `Emitter.at`): it computes the sizes that are unknown until run time.
    """

    def __init__(self, dims: Sequence[Extent], walk: "_Walk", emitter: "Emitter") -> None:
        self.dims = tuple(dims)
        self._walk = walk
        self._emitter = emitter

    def __len__(self) -> int:
        return len(self.dims)

    def also(self, dims: Sequence[Extent]) -> "Sizes":
        """Return other sizes of the same program as a `Sizes`: for example those of a result of the node."""
        return Sizes(dims, self._walk, self._emitter)

    @property
    def known(self) -> Optional[Tuple[int, ...]]:
        """All sizes as a tuple of ints; None if any is known only at run time. A concrete emitter knows every size."""
        values = self.scalars if self._emitter.concrete else self.dims
        ints = [int(v) for v in values if isinstance(v, (int, np.integer))]
        return tuple(ints) if len(ints) == len(self.dims) else None

    @property
    def with_wildcard(self) -> Optional[Tuple[int, ...]]:
        """All sizes as a tuple of ints, as Reshape takes them: a single symbolic size is -1.

        None if several sizes are symbolic, or if one is symbolic and another is 0. With a concrete emitter, every size
        is known.
        """
        known = self.known
        if known is not None:
            return known
        unknown = [dim for dim in self.dims if not is_static(dim)]
        if len(unknown) > 1 or any(is_static(dim) and dim == 0 for dim in self.dims):
            return None
        return tuple(int(dim) if is_static(dim) else -1 for dim in self.dims)

    @property
    def scalars(self) -> List[Handle]:
        """Each size as an int if the emitter knows it, else as a scalar handle of the emitter's index dtype."""
        return [self._walk.size(dim, self._emitter) for dim in self.dims]

    @property
    def tensor(self) -> Handle:
        """All sizes as a vector of the emitter's index dtype."""
        return self._walk.vector(self.dims, self._emitter)


def emit(region: Region, emitter: "Emitter", handles: Sequence[Handle]) -> List[Handle]:
    """Emit the nodes of a region that its outputs depend on. Return a list with a handle for each output.

    `handles`: a handle for each input of the region.

    - Raises TargetError if the region was recorded for another target.
    - Raises UnsupportedError, which names the ONNX node, if a node cannot be emitted.
    - Raises any other OnnxCompatError of the emitter with the ONNX node: for example InvalidModelError of the
      reference.
    - With ONNX_COMPAT_VERIFY=1, raises VerificationError if a region with a target has a defect.
    """
    check_target(region, emitter)
    if region.target is not None and is_verifying():
        from onnx_compat.ir.verifier import verify_region

        verify_region(region)
    return _Walk(emitter, {}).region(region, handles)


def check_target(region: Region, emitter: "Emitter") -> None:
    """Raise TargetError if the region was recorded for another target than that of the emitter.

    A region without a target fits every emitter.
    """
    if region.target is not None and region.target != emitter.target:
        raise TargetError(
            "the program was recorded for %s; this emitter needs %s" % (region.target, emitter.target),
            hint="record the model with an emitter of the shim that compiles it: record(function, inputs, shim.emitter())",
        )


def check_primitives(region: Region, emitter: "Emitter") -> None:
    """Raise UnsupportedError if the emitter lacks a primitive of a live node of the region or of an inner region."""
    for node in region.live():
        if node.primitive != "extents" and not emitter.has(node.primitive):
            raise _add_origin(UnsupportedError(_MISSING_PRIMITIVE % node.primitive), node)
        for inner in node.regions:
            check_primitives(inner, emitter)


_MISSING_PRIMITIVE = "the shim does not offer the primitive '%s'"


class _Unsupported:
    """A stand-in for a handle that the framework cannot hold. A node that reads it fails with the same reason."""

    def __init__(self, error: OnnxCompatError) -> None:
        self.error = error


def emission_errors(region: Region, emitter: "Emitter") -> Dict[str, OnnxCompatError]:
    """Emit every live node of a region with placeholders as inputs. Return name of the ONNX node -> its first error.

    The walk goes on after an error, with placeholders as the results of that node. The name is "" for a node without an
    origin, for example the transpose of an input.
    """
    walk = _Walk(emitter, {})
    walk.failed = {}
    walk.region(region, [walk.placeholder(ref) for ref in region.inputs])
    return walk.failed


def execute(node: Node, emitter: "Emitter") -> None:
    """Execute a node at once by a concrete emitter. The results are stored in `Ref.handle` of the node's outputs.

    The sizes in the types of the outputs are replaced by actual sizes. The arguments' values are read from
    `Ref.handle`. Raises UnsupportedError if the framework refuses the node. Any other OnnxCompatError of the emitter is
    raised too.
    """
    walk = _Walk(emitter, {})
    walk.node(node)
    for ref in node.outputs:
        ref.handle = walk.env[ref]
        ref.spec = Spec(ref.spec.dtype, tuple(emitter.shape(ref.handle)))


class _Walk:
    """A walk that emits the nodes of a region, and keeps the handle of each value and of each symbolic size.

    env: value -> handle. With a concrete emitter, a handle is dropped after the last node that reads the value.
    failed: ONNX node name -> first error, if the walk goes on after errors. None: the first error ends the walk and is
        raised.
    """

    def __init__(self, emitter: "Emitter", env: Dict[Ref, Handle]) -> None:
        self.emitter = emitter
        self.env = env
        self.failed: Optional[Dict[str, OnnxCompatError]] = None
        self._sizes: Dict[Atom, Handle] = {}

    def region(self, region: Region, handles: Sequence[Handle]) -> List[Handle]:
        """Emit the live nodes. Return the handles of the outputs, or an empty list if `failed` collects errors.

        `handles`: a handle for each input of the region. An emitter that stores its node (see `Emitter.at`) has the
        same node before and after the call.
        """
        enclosing_node = getattr(self.emitter, "node", None)
        try:
            return self._nodes(region, handles)
        finally:
            if enclosing_node is not None:
                self.emitter.at(enclosing_node)

    def _nodes(self, region: Region, handles: Sequence[Handle]) -> List[Handle]:
        self.env.update(zip(region.inputs, handles))
        for node, spent in zip(region.live(), region.spent()):
            try:
                self.node(node)
            except OnnxCompatError as error:
                if self.failed is None:
                    raise
                self.failed.setdefault(node.origin.node if node.origin is not None else "", error)
                self.env.update((ref, self.placeholder(ref)) for ref in node.outputs)
            if self.emitter.concrete:  # frees the memory of values that no later node reads
                for ref in spent:
                    self.env.pop(ref, None)
        if self.failed is not None:
            return []
        return [self.argument(output, self.emitter) for output in region.outputs]

    def node(self, node: Node) -> None:
        """Emit a node: apply its primitive, and store the handles of the results.

        Raises UnsupportedError, with the origin of the node, for any error of the framework. An OnnxCompatError is
        raised again with the origin of the node.
        """
        emitter = self.emitter.at(node)
        try:
            if node.primitive == "extents":
                results: Any = self._extents(node, emitter)
            else:
                if not emitter.has(node.primitive):
                    raise UnsupportedError(_MISSING_PRIMITIVE % node.primitive)
                args = [self.argument(arg, emitter) for arg in node.args]
                params: Mapping[str, Any] = node.params
                if node.regions:
                    captures = list(dict.fromkeys(ref for region in node.regions for ref in region.captures()))
                    bodies = [self._body(region, captures) for region in node.regions]
                    captured = [self.argument(ref, emitter) for ref in captures]
                    params = dict(params, bodies=bodies, captures=captured)
                results = emitter.apply(node.primitive, args, params)
            if len(node.outputs) == 1 and not isinstance(results, tuple):
                results = (results,)
            for ref, value in zip(node.outputs, results):
                self.env[ref] = handle = emitter.finish(value, ref.spec.dtype)
                if ref.name is not None:
                    emitter.name_value(handle, ref.name)
        except OnnxCompatError as error:
            raise _add_origin(error, node) from error.__cause__
        except Exception as error:
            reason = "the framework refused the primitive '%s': %s" % (node.primitive, _cause(error))
            raise _add_origin(UnsupportedError(reason), node) from error

    def _body(self, region: Region, captures: Sequence[Ref]) -> Callable[..., List[Handle]]:
        """Return an inner region as a function that emits it: handles -> list of the output handles.

        The handles are those of the region's inputs, then those of the values `captures`.
        """

        def body(*handles: Any) -> List[Any]:
            inputs, captured = handles[: len(region.inputs)], handles[len(region.inputs) :]
            inner = _Walk(self.emitter, dict(self.env))
            inner.env.update(zip(captures, captured))
            return inner.region(region, inputs)

        return body

    def placeholder(self, ref: Ref) -> Handle:
        """Return a handle of an unknown value with the type of `ref`.

        Return an `_Unsupported` if the emitter raises UnsupportedError for the type, or if the framework refuses the
        type. Any other OnnxCompatError is raised.
        """
        try:
            return self.emitter.placeholder(ref.spec)
        except UnsupportedError as error:
            return _Unsupported(error)
        except OnnxCompatError:
            raise
        except Exception as error:  # noqa: BLE001 (the errors of frameworks have no common base)
            type_text = "%s%s" % (ref.spec.dtype, list(ref.spec.shape))
            return _Unsupported(UnsupportedError("the framework has no tensor %s: %s" % (type_text, _cause(error))))

    # -- arguments -----------------------------------------------------------------------------------------------------
    def argument(self, arg: Arg, emitter: "Emitter") -> Handle:
        """Return an argument in the form in which the emitter of the node gets it.

        A tensor becomes a handle, `Extents` become `Sizes`, and a tuple becomes a list. Any other argument stays, also
        None. Raises UnsupportedError for an `_Unsupported` value.
        """
        if isinstance(arg, Ref):
            handle = self.env.get(arg, arg.handle)
            if isinstance(handle, _Unsupported):
                raise UnsupportedError(handle.error.reason, hint=handle.error.hint)
            return handle
        if isinstance(arg, Const):
            return emitter.constant(arg.array, arg.spec.dtype)
        if isinstance(arg, Extents):
            return Sizes(arg.dims, self, emitter)
        if isinstance(arg, tuple):
            return [self.argument(item, emitter) for item in arg]
        return arg

    def size(self, dim: Extent, emitter: "Emitter") -> Handle:
        """Return a size as an int, or as a scalar of the emitter's index dtype. Each run-time atom is computed once."""
        if not isinstance(dim, Dim):
            return int(dim)
        total: Any = None
        for monomial, factor in dim.terms.items():
            product: Any = None
            for atom in monomial:
                value = self._atom(atom, emitter)
                product = value if product is None else _apply("mul", product, value, emitter)
            term = factor if product is None else product if factor == 1 else _apply("mul", product, factor, emitter)
            total = term if total is None else _apply("add", total, term, emitter)
        return total

    def _atom(self, atom: Atom, emitter: "Emitter") -> Any:
        if atom not in self._sizes:
            if atom.kind == "axis":
                value = emitter.dim(self.argument(atom.args[0], emitter), atom.args[1])
            elif atom.kind == "element":
                value = emitter.element(self.argument(atom.args[0], emitter), atom.args[1])
            else:
                value = _apply(atom.kind, self.size(atom.args[0], emitter), self.size(atom.args[1], emitter), emitter)
            self._sizes[atom] = value
        return self._sizes[atom]

    def vector(self, dims: Sequence[Extent], emitter: "Emitter") -> Handle:
        """Return sizes as a vector of the emitter's index dtype."""
        values = [self.size(dim, emitter) for dim in dims]
        if all(isinstance(v, (int, np.integer)) for v in values):
            return _constant_sizes(values, emitter)
        return emitter.stack([_scalar(v, emitter) for v in values])

    def _extents(self, node: Node, emitter: "Emitter") -> Any:
        shape, dtype = node.params["shape"], node.params["dtype"]
        sizes: Any = node.args[0]  # the trace records Extents here
        vector = self.vector(sizes.dims, emitter)
        if dtype != emitter.index_dtype:
            vector = emitter.apply("cast", [vector], {"dtype": dtype})
        return vector if len(shape) == 1 else emitter.apply("reshape", [vector, Sizes(shape, self, emitter)], {})


def _apply(operation: str, a: Handle, b: Handle, emitter: "Emitter") -> Handle:
    """Apply an operation to two sizes: in Python if both are ints, else by the primitive.

    The operation is "add", "mul", "floordiv", "mod", "max" or "min". The result is an int or a scalar handle.
    """
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
    primitive = {"max": "maximum", "min": "minimum"}.get(operation, operation)
    return emitter.apply(primitive, emitter.promote(_scalar(a, emitter), _scalar(b, emitter)), {})


def _scalar(size: Handle, emitter: "Emitter") -> Handle:
    """Return a size as a scalar handle of the emitter's index dtype; a handle is returned unchanged."""
    return _constant_sizes(int(size), emitter) if isinstance(size, (int, np.integer)) else size


def _constant_sizes(values: Union[int, Sequence[int]], emitter: "Emitter") -> Handle:
    """Return a known size, or a list as a vector, as a constant of the emitter's index dtype.

    Raises UnsupportedError for a size that exceeds the index dtype.
    """
    index = emitter.index_dtype
    exact = np.asarray(values, np.int64)
    array = exact.astype(index.numpy)
    if not np.array_equal(array, exact):
        raise UnsupportedError(
            "the size %d exceeds the range of %s" % (max(exact.reshape(-1).tolist(), key=abs), index)
        )
    return emitter.constant(array, index)


def _add_origin(error: OnnxCompatError, node: Node) -> OnnxCompatError:
    if node.origin is None:
        return error
    return error.at(node=node.origin.node, operator=node.origin.operator, opset=node.origin.opset)


def _cause(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, error_line(str(error)))

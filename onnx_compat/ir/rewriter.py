"""Rewrite a region: replace nodes in a copy, or replace values in symbolic sizes in place.

`Ref.node` is the only producer of a value. So a rewrite that leaves the old region intact copies every value. A rewrite
in place that deletes a value must also replace the value in the symbolic sizes that contain it.
"""

from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.ir import is_verifying
from onnx_compat.ir.dims import Atom, Dim, Extent, atoms_of, is_static
from onnx_compat.ir.program import Arg, Extents, Node, Ref, Region, Spec

__all__ = ["Replacement", "copy_nodes", "replace_values_in_sizes", "rewrite_region"]


class Replacement(NamedTuple):
    """The primitive, the arguments and the parameters that replace those of a node.

    The node's regions, and the types and names of its results, stay. The arguments are values of the old region.
    """

    primitive: str
    args: List[Arg]
    params: Dict[str, Any]


def rewrite_region(
    region: Region, rewrite: Callable[[Node], Optional[Replacement]], nested: bool = False
) -> Tuple[Region, int]:
    """Return (copy of the region in which `rewrite` replaces nodes, number of replaced nodes).

    `rewrite` is called for each live node of the region, and if `nested` for those of inner regions. It returns None
    for a node that stays.

    The copy has no dead nodes, and shares the inputs of the region. If no node is replaced, the region itself and 0 are
    returned. If ONNX_COMPAT_VERIFY=1, raises VerificationError for a copy with a defect.
    """
    replacements = {node: rewrite(node) for node in _live_nodes(region, nested)}
    count = sum(replacement is not None for replacement in replacements.values())
    if not count:
        return region, 0
    copy = Region(region.inputs, region.target)
    _Copy(replacements).fill(copy, region)
    if is_verifying():
        from onnx_compat.ir.verifier import verify_region

        verify_region(copy)
    return copy, count


def copy_nodes(region: Region, values: Mapping[Ref, Ref]) -> Tuple[List[Node], Tuple[Arg, ...]]:
    """Return (copies of the live nodes of a region, the outputs of the region), for use inside of another region.

    `values` maps the inputs of the region to the values that replace them, and may replace values of enclosing regions.
    Values of enclosing regions that it lacks stay.
    """
    copy = Region(())
    _Copy({}, values).fill(copy, region)
    return copy.nodes, copy.outputs


def _live_nodes(region: Region, nested: bool) -> Iterator[Node]:
    """Yield the live nodes of a region, and if `nested` those of its inner regions, at any depth."""
    for node in region.live():
        yield node
        for inner in node.regions if nested else ():
            yield from _live_nodes(inner, nested)


def replace_values_in_sizes(region: Region, values: Dict[Ref, Ref]) -> None:
    """Replace values in the symbolic sizes of a region and its inner regions, in place.

    `values` maps a value to its replacement. If the replacement is a key too, it is replaced in turn. Sizes are
    replaced in node arguments, in the types of node results, and in the input types of inner regions. The region's own
    inputs, its outputs and all tensor arguments stay.
    """
    sizes = _Sizes(values)
    for node in region.nodes:
        node.args = tuple(map(sizes.arg, node.args))
        for ref in node.outputs:
            ref.spec = sizes.spec(ref.spec)
        for inner in node.regions:
            for ref in inner.inputs:
                ref.spec = sizes.spec(ref.spec)
            replace_values_in_sizes(inner, values)


class _Sizes:
    """Substitute values in symbolic sizes. `values` maps each old value to its replacement."""

    def __init__(self, values: Mapping[Ref, Ref]) -> None:
        self.values = values

    def value(self, ref: Ref) -> Ref:
        """Return the replacement of a value, also through several steps. A value without a replacement stays."""
        while ref in self.values:
            ref = self.values[ref]
        return ref

    def spec(self, spec: Spec) -> Spec:
        """Return the type with the symbolic sizes of its shape substituted."""
        if all(map(is_static, spec.shape)):
            return spec
        return Spec(spec.dtype, tuple(map(self.extent, spec.shape)))

    def arg(self, arg: Arg) -> Arg:
        """Return the argument with its symbolic sizes substituted. Tensors in the argument stay."""
        if isinstance(arg, Extents):
            return Extents([self.extent(dim) for dim in arg.dims])
        return tuple(map(self.arg, arg)) if isinstance(arg, tuple) else arg

    def extent(self, extent: Extent) -> Extent:
        """Return a size in which every value is replaced. A size without such a value is returned itself."""
        if not isinstance(extent, Dim) or not any(atom.args[0] in self.values for atom in atoms_of(extent)):
            return extent
        total: Extent = 0
        for monomial, factor in extent.terms.items():
            product: Extent = factor
            for atom in monomial:
                product = product * self._atom(atom)
            total = total + product
        return total

    def _atom(self, atom: Atom) -> Extent:
        if atom.kind in ("axis", "element"):
            return Dim.atom(atom.kind, self.value(atom.args[0]), *atom.args[1:])
        return Dim.atom(atom.kind, *map(self.extent, atom.args))


class _Copy(_Sizes):
    """Copy a region with its values. `copied` maps each value that is already copied to its copy.

    `given`: values that existing values replace. A length of an axis becomes the length that the replacement has.
    """

    def __init__(
        self, replacements: Mapping[Node, Optional[Replacement]], given: Optional[Mapping[Ref, Ref]] = None
    ) -> None:
        self.given = {ref: value for ref, value in (given or {}).items() if value is not ref}
        self.copied: Dict[Ref, Ref] = dict(self.given)
        super().__init__(self.copied)
        self.replacements = replacements

    def arg(self, arg: Arg) -> Arg:
        """Return an argument with every value replaced by its copy, also in symbolic sizes.

        A value without a copy stays. It is an input that both regions share, or a value of an enclosing region.
        """
        return self.value(arg) if isinstance(arg, Ref) else super().arg(arg)

    def _atom(self, atom: Atom) -> Extent:
        if atom.kind == "axis" and atom.args[0] in self.given:
            size: Extent = self.given[atom.args[0]].spec.shape[atom.args[1]]
            return size
        return super()._atom(atom)

    def fill(self, new: Region, region: Region) -> None:
        """Fill the region `new` with copies of the live nodes of `region`, and set its outputs, in place."""
        new.replace([self._node(node) for node in region.live()])
        new.outputs = tuple(map(self.arg, region.outputs))

    def _node(self, node: Node) -> Node:
        primitive, args, params = self.replacements.get(node) or Replacement(
            node.primitive, list(node.args), node.params
        )
        regions = [self._region(region) for region in node.regions]
        copy = Node(primitive, [self.arg(arg) for arg in args], params, [], node.origin, regions)
        copy.outputs = self._values(node.outputs, copy)
        return copy

    def _region(self, region: Region) -> Region:
        copy = Region(self._values(region.inputs), region.target)
        self.fill(copy, region)
        return copy

    def _values(self, refs: Sequence[Ref], node: Optional[Node] = None) -> Tuple[Ref, ...]:
        """Return a copy of each value in `refs`, and record each copy in `self.copied`.

        `node` is the producer of the copies; None for inputs of a region. Sizes are substituted after all values are
        copied, because the size of a value may contain another value of `refs`.
        """
        values = tuple(Ref(ref.spec, node) for ref in refs)
        self.copied.update(zip(refs, values))
        for value, ref in zip(values, refs):
            value.name, value.spec = ref.name, self.spec(ref.spec)
        return values

"""Print programs in SSA form, with a line for each node.

    program main for channels_first, filters OIHW
    input %0 "x": float32[N, 3]
    %1: float32[N, 3] = mul(%0, const float32 2.0)  # Mul 'twice' -> 'y'
    output "y" = %1

A size is one of these, or arithmetic over them:

- a number
- the name of a symbolic size of an input
- `%3.shape[0]`: the length of an axis
- `%4[1]`: an element of an integer vector

The regions of a node follow it, indented.
"""

from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

from onnx_compat.ir.dims import Atom, Dim, Extent
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.program import Const, Extents, Node, Ref, Region, Spec
from onnx_compat.ir.window import Window

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Program

__all__ = ["Printer", "format_program"]

_SHORT = 4  # a constant of more elements prints its shape only
_WIDTH = 60  # a longer value of a parameter is cut
_INFIX = {"floordiv": "//", "mod": "%"}


def format_program(program: "Program") -> str:
    """Return a program as text, in the form that the module's docstring shows. Dead nodes are left out."""
    printer, region = Printer(), program.region
    lines = ["program %s for %s" % (program.name, "any target" if program.target is None else program.target)]
    for port, ref in zip(program.inputs, region.inputs):
        printer.name_sizes(ref, port.shape)
    for port, ref in zip(program.inputs, region.inputs):
        lines.append('input %s "%s": %s' % (printer.define(ref), port.name, printer.spec(ref.spec)))
    for node in region.live():
        lines.extend(printer.node(node))
    lines.extend(
        'output "%s" = %s' % (port.name, printer.arg(arg)) for port, arg in zip(program.outputs, region.outputs)
    )
    return "\n".join(lines)


class Printer:
    """Format nodes, regions, types and sizes as text.

    Values are named %0, %1, … in the order of their first `define`.
    """

    def __init__(self) -> None:
        self._names: Dict[Ref, str] = {}
        self._sizes: Dict[Atom, str] = {}

    def define(self, ref: Ref) -> str:
        """Return the name of a value: "%3". The first call for a value assigns the next number to it."""
        return self._names.setdefault(ref, "%%%d" % len(self._names))

    def name_sizes(self, ref: Ref, shape: Sequence[Union[int, str, None]]) -> None:
        """Set the names by which the symbolic sizes of the program input `ref` are printed: "N", not "%0.shape[0]".

        `shape` has a name, an int or None for each axis. Only the names of axes with a symbolic size are used. If a
        size has a name already, the size keeps its name. A symbolic size with a name must be a single atom.
        """
        for extent, name in zip(ref.spec.shape, shape):
            if isinstance(name, str) and isinstance(extent, Dim):
                (((atom,), _),) = extent.terms.items()
                self._sizes.setdefault(atom, name)

    def node(self, node: Node, indent: str = "") -> Iterator[str]:
        """Yield the lines of a node: its own line, then the indented lines of its regions."""
        yield indent + self.line(node)
        for k, region in enumerate(node.regions):
            inputs = ", ".join("%s: %s" % (self.define(ref), self.spec(ref.spec)) for ref in region.inputs)
            yield "%s  region %d (%s):" % (indent, k, inputs)
            yield from self.region(region, indent + "    ")

    def region(self, region: Region, indent: str = "") -> Iterator[str]:
        """Yield the lines of the live nodes of a region, then its `return` line.

        The caller must `define` the inputs of the region first. Each line starts with `indent`.
        """
        for node in region.live():
            yield from self.node(node, indent)
        yield "%sreturn %s" % (indent, ", ".join(map(self.arg, region.outputs)))

    def line(self, node: Node) -> str:
        """Return the line of a node: typed results, primitive, arguments, parameters, origin. Regions are left out."""
        args = ", ".join(map(self.arg, node.args))
        results = [self.define(ref) for ref in node.outputs]
        types = ["%s: %s" % (name, self.spec(ref.spec)) for name, ref in zip(results, node.outputs)]
        return "%s = %s(%s)%s%s" % (", ".join(types), node.primitive, args, _params(node.params), _source(node))

    def spec(self, spec: Spec) -> str:
        """Return a type as text: "float32[N, 3]"."""
        return "%s%s" % (spec.dtype.name, self._shape(spec.shape))

    def arg(self, arg: object) -> str:
        """Return an argument of a node as text.

        - A value: its name, or "%undefined" if it has none (see `define`).
        - A constant: its dtype, its shape, and its elements if there are at most 4.
        - Extents: a list of sizes. A tuple: its items. None: "none". Any other object: its repr.
        """
        if isinstance(arg, Ref):
            return self._names.get(arg, "%undefined")
        if isinstance(arg, Const):
            return "const " + _constant(arg)
        if isinstance(arg, Extents):
            return self._shape(arg.dims)
        if isinstance(arg, tuple):
            return "(%s)" % ", ".join(map(self.arg, arg))
        return "none" if arg is None else repr(arg)

    # -- sizes ---------------------------------------------------------------------------------------------------------
    def _shape(self, shape: Sequence[Extent]) -> str:
        return "[%s]" % ", ".join(map(self.size, shape))

    def size(self, extent: Extent) -> str:
        """Return a size as text: "2*N + 1". The terms are sorted as text, so equal sizes have equal texts."""
        if not isinstance(extent, Dim):
            return str(extent)
        terms = sorted(
            (not monomial, "*".join([*([str(factor)] if factor != 1 or not monomial else []), *self._atoms(monomial)]))
            for monomial, factor in extent.terms.items()
        )
        return " + ".join(text for _, text in terms).replace("+ -", "- ").replace("-1*", "-")

    def _atoms(self, atoms: Sequence[Atom]) -> List[str]:
        return sorted(map(self._atom, atoms))

    def _atom(self, atom: Atom) -> str:
        if atom in self._sizes:
            return self._sizes[atom]
        if atom.kind == "axis":
            return "%s.shape[%d]" % (self.arg(atom.args[0]), atom.args[1])
        if atom.kind == "element":
            index: Optional[int] = atom.args[1]
            return self.arg(atom.args[0]) + ("" if index is None else "[%d]" % index)
        left, right = map(self.size, atom.args)
        if atom.kind in _INFIX:
            return "(%s %s %s)" % (_parenthesize(left), _INFIX[atom.kind], _parenthesize(right))
        return "%s(%s)" % (atom.kind, ", ".join(sorted([left, right])))


def _parenthesize(size: str) -> str:
    return "(%s)" % size if " " in size and not size.startswith("(") else size


def _constant(const: Const) -> str:
    dtype, array = const.spec.dtype.name, const.array
    if array.size > _SHORT:
        return "%s%s" % (dtype, list(array.shape))
    return "%s %s" % (
        dtype,
        array.tolist() if array.ndim < 2 else "%s in %s" % (array.ravel().tolist(), list(array.shape)),
    )


def _params(params: Mapping[str, object]) -> str:
    if not params:
        return ""
    flat: Dict[str, object] = {}
    for name, value in params.items():
        flat.update(value._asdict() if isinstance(value, Window) else {name: value})
    return " {%s}" % ", ".join("%s=%s" % (name, _param(flat[name])) for name in sorted(flat))


def _param(value: object) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, np.generic):
        value = value.item()
    text = repr(value)
    return text if len(text) <= _WIDTH else text[:_WIDTH] + "..."


def _source(node: Node) -> str:
    """Return the comment that ends the line of a node: "  # Mul 'twice' -> 'y'". Return "" if the node has no origin.

    The comment has the operator and the name of the ONNX node that the primitive comes from, then the names of its
    results. Results without a name are left out.
    """
    if node.origin is None:
        return ""
    names = ["'%s'" % ref.name for ref in node.outputs if ref.name is not None]
    return "  # %s '%s'%s" % (node.origin.operator, node.origin.node, " -> " + ", ".join(names) if names else "")

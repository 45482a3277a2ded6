"""The verifier of programs: a defect of a trace or of a rewrite is reported at the step that caused it.

It runs with ONNX_COMPAT_VERIFY=1: after a trace, after every rewrite, and before a program is emitted. It checks that

- a value is defined once, before it is used (by a node, by a size, inside a region), and its node is its producer;
- dtypes and shapes are those of the primitive's own rule (`primitives.rules`), which recorded the node;
- the arguments are what the primitive takes (`primitives.conditions`): axes in range, permutations, regions;
- sizes depend on values in scope only;
- the ports of a program are those of its region.
"""

from typing import Any, Iterable, List, NoReturn, Optional, Sequence, Set

from onnx_compat.errors import OnnxCompatError, VerificationError
from onnx_compat.ir.dims import Dim, atoms_of, is_equal, is_static
from onnx_compat.ir.printer import Printer
from onnx_compat.ir.program import Const, Node, Ref, Region, Spec, Target, refs

__all__ = ["verify_program", "verify_region"]


def verify_program(program: Any) -> None:
    """Raise VerificationError if an `onnx_compat.shim.interface.Program` has a defect."""
    region = program.region
    for kind, ports, values in (("input", program.inputs, region.inputs), ("output", program.outputs, region.outputs)):
        if len(ports) != len(values):
            raise VerificationError("the program has %d %s ports for %d values" % (len(ports), kind, len(values)))
        for port, value in zip(ports, values):
            defect = _port_defect(port, value)
            if defect:
                raise VerificationError("the %s '%s' %s" % (kind, port.name, defect))
    verify_region(region)


def _port_defect(port: Any, value: Any) -> str:
    if not isinstance(value, (Ref, Const)):
        return "is no value"
    spec = value.spec
    if spec.dtype != port.dtype or spec.rank != len(port.shape):
        return "is %s of rank %d; its value is %s of rank %d" % (port.dtype, len(port.shape), spec.dtype, spec.rank)
    known = [(size, extent) for size, extent in zip(port.sizes, spec.shape) if size is not None]
    wrong = any(not is_equal(size, extent) for size, extent in known)
    return "has the shape %s; its value has %s" % (list(port.shape), list(spec.shape)) if wrong else ""


def verify_region(region: Region) -> None:
    """Raise VerificationError if a region that reads nothing from outside has a defect."""
    _Verifier(region.target).region(region, set())


class _Verifier:
    def __init__(self, target: Optional[Target]) -> None:
        self.target = target or Target()
        self.printer = Printer()

    def region(self, region: Region, outer: Set[Ref]) -> None:
        """Check a region in the scope of the values of the regions around it."""
        scope = set(outer)
        for ref in region.inputs:
            self._define(ref, None, scope)
        for ref in region.inputs:
            self._check_sizes(ref, scope, None)
        for node in region.live():
            self._node(node, scope)
        for output in region.outputs:
            if not isinstance(output, (Ref, Const)):
                self._refuse("an output of a region is no value: %r" % (output,))
            self._check_uses((output,), scope, None)

    def _node(self, node: Node, scope: Set[Ref]) -> None:
        self._check_uses(node.args, scope, node)
        for region in node.regions:
            self.region(region, scope)
        for ref in node.outputs:
            self._define(ref, node, scope)
        for ref in node.outputs:
            self._check_sizes(ref, scope, node)
        self._check_rule(node)

    def _define(self, ref: Ref, node: Optional[Node], scope: Set[Ref]) -> None:
        name = self.printer.define(ref)
        if ref in scope:
            self._refuse("%s is defined a second time" % name, node)
        if ref.node is not node:
            self._refuse("the node of %s is not its producer, but %s" % (name, ref.node and ref.node.primitive), node)
        scope.add(ref)

    def _check_uses(self, args: Sequence[Any], scope: Set[Ref], node: Optional[Node]) -> None:
        for arg in args:
            for ref in refs(arg):
                if ref not in scope:
                    self._refuse(
                        "it reads a value of type %r that is not defined before it, or not in scope" % ref, node
                    )
        for const in _constants(args):
            if const.array.dtype != const.spec.dtype.numpy or const.array.shape != const.spec.shape:
                held = "%s%s" % (const.array.dtype, list(const.array.shape))
                self._refuse("a constant of type %s holds an array %s" % (self.printer.spec(const.spec), held), node)

    def _check_sizes(self, ref: Ref, scope: Set[Ref], node: Optional[Node]) -> None:
        for extent in ref.spec.shape:
            if not isinstance(extent, (int, Dim)) or (not isinstance(extent, Dim) and extent < 0):
                self._refuse("a result has the size %r" % (extent,), node)
            if any(atom.args[0] not in scope for atom in atoms_of(extent)):
                self._refuse("the size %s depends on a value that is not in scope" % self.printer.size(extent), node)

    def _check_rule(self, node: Node) -> None:
        """Compare the types of the results with those of the primitive's rule. A native has none."""
        from onnx_compat.primitives.base import RULES, Application
        from onnx_compat.primitives.conditions import check_conditions

        infer = RULES.get(node.primitive)
        if infer is None:
            return
        at = Application(node.primitive, node.args, node.params, node.regions, self.target)
        try:
            check_conditions(at)
            specs = infer(at)
        except OnnxCompatError as error:
            self._refuse(error.reason, node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self._refuse("its rule fails: %s: %s" % (type(error).__name__, error), node)
        if len(specs) != len(node.outputs):
            self._refuse("it has %d results; by its rule there are %d" % (len(node.outputs), len(specs)), node)
        for ref, spec in zip(node.outputs, specs):
            if not _agrees(ref, spec):
                by_rule = "%s%s" % (spec.dtype, [None if d is None else self.printer.size(d) for d in spec.shape])
                self._refuse("the type of %s is, by its rule, %s" % (self.printer.define(ref), by_rule), node)

    def _refuse(self, defect: str, node: Optional[Node] = None) -> NoReturn:
        if node is None:
            raise VerificationError("the program has a defect: %s" % defect, hint=_HINT)
        error = VerificationError(
            "the program has a defect: %s\n  in: %s" % (defect, self.printer.line(node)), hint=_HINT
        )
        if node.origin is not None:
            error.at(node=node.origin.node, operator=node.origin.operator, opset=node.origin.opset)
        raise error


_HINT = "this is a defect of onnx-compat: please report it with the model"


def _constants(args: Iterable[Any]) -> List[Const]:
    found: List[Const] = []
    for arg in args:
        if isinstance(arg, Const):
            found.append(arg)
        elif isinstance(arg, tuple):
            found.extend(_constants(arg))
    return found


def _agrees(ref: Ref, inferred: Spec) -> bool:
    """Whether the type of a result is that of the rule. A size that the rule leaves open must be open; one that is symbolic
    by the rule may be the length of this very axis, which says less.
    """
    if ref.spec.dtype != inferred.dtype or ref.spec.rank != inferred.rank:
        return False
    for axis, (size, by_rule) in enumerate(zip(ref.spec.shape, inferred.shape)):
        says_less = not is_static(by_rule) and is_equal(size, Dim.atom("axis", ref, axis))
        if not (not is_static(size) if by_rule is None else says_less or is_equal(size, by_rule)):
            return False
    return True

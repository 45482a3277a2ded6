"""Verify programs, to report a defect of a trace or of a rewrite at the step that caused it.

The verifier runs with ONNX_COMPAT_VERIFY=1: after a trace, after every rewrite, and before a program is emitted. It
checks that

- a value is defined once, before it is used (by a node, by a size, inside a region), and its node is its producer;
- dtypes and shapes are those of the primitive's rule (`primitives.rules`);
- the arguments meet the primitive's conditions (`primitives.conditions`): axes in range, permutations, regions;
- sizes depend on values in scope only;
- the ports of a program match the inputs and outputs of its region.
"""

from typing import TYPE_CHECKING, Iterable, List, NoReturn, Optional, Set

from onnx_compat.errors import OnnxCompatError, VerificationError
from onnx_compat.ir.dims import Dim, atoms_of, is_equal, is_static
from onnx_compat.ir.printer import Printer
from onnx_compat.ir.program import Arg, Const, Node, Ref, Region, Spec, Target, refs

if TYPE_CHECKING:
    from onnx_compat.shim.interface import Port, Program

__all__ = ["verify_program", "verify_region"]


def verify_program(program: "Program") -> None:
    """Raise VerificationError if the program has a defect.

    - The region has a defect (see `verify_region`).
    - A port does not match its value.
    - The number of ports differs from the number of values.
    """
    region = program.region
    for kind, ports, values in (("input", program.inputs, region.inputs), ("output", program.outputs, region.outputs)):
        if len(ports) != len(values):
            raise VerificationError("the program has %d %s ports for %d values" % (len(ports), kind, len(values)))
        for port, value in zip(ports, values):
            defect = _port_defect(port, value)
            if defect:
                raise VerificationError("the %s '%s' %s" % (kind, port.name, defect))
    verify_region(region)


def _port_defect(port: "Port", value: Arg) -> str:
    """Return a text that says how a value differs from its port; "" if the value fits.

    The dtype, the rank, and the sizes that the port knows are compared. A value that is no tensor differs.
    """
    if not isinstance(value, (Ref, Const)):
        return "is no value"
    spec = value.spec
    if spec.dtype != port.dtype or spec.rank != len(port.shape):
        return "is %s of rank %d; its value is %s of rank %d" % (port.dtype, len(port.shape), spec.dtype, spec.rank)
    known = [(size, extent) for size, extent in zip(port.sizes, spec.shape) if size is not None]
    wrong = any(not is_equal(size, extent) for size, extent in known)
    return "has the shape %s; its value has %s" % (list(port.shape), list(spec.shape)) if wrong else ""


def verify_region(region: Region) -> None:
    """Raise VerificationError if a region, or an inner region, has a defect (see the list in the module's docstring).

    `region` is an outermost region: a read of a value from outside of it is a defect. Dead nodes are not verified.
    """
    _Verifier(region.target).region(region, set())


class _Verifier:
    """Verify the regions of one program, which is recorded for `target`; None: the default target."""

    def __init__(self, target: Optional[Target]) -> None:
        self.target = target or Target()
        self.printer = Printer()

    def region(self, region: Region, outer: Set[Ref]) -> None:
        """Raise VerificationError if a region or an inner region has a defect. Nodes may read the values in `outer`."""
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

    def _check_uses(self, args: Iterable[Arg], scope: Set[Ref], node: Optional[Node]) -> None:
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
        """Check a node against the conditions and the inference rule of its primitive.

        Raises VerificationError in these cases:

        - The arguments do not meet the conditions.
        - The rule raises an error.
        - The number of results, or the type of a result (see `_has_inferred_type`), is not that of the rule.

        A primitive without a rule (a native) passes.
        """
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
            if not _has_inferred_type(ref, spec):
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


def _constants(args: Iterable[Arg]) -> List[Const]:
    """Return the constants among the arguments and in their nested tuples, in order."""
    constants: List[Const] = []
    for arg in args:
        if isinstance(arg, Const):
            constants.append(arg)
        elif isinstance(arg, tuple):
            constants.extend(_constants(arg))
    return constants


def _has_inferred_type(ref: Ref, inferred: Spec) -> bool:
    """Whether the recorded type of a result agrees with the type that the primitive's rule infers.

    Dtype and rank must be equal. Each recorded size must agree with the inferred size:

    - Inferred is None (open): the recorded size must be symbolic.
    - Inferred is symbolic: the recorded size is equal, or it is the symbolic length of the result's own axis.
    - Inferred is an int: the recorded size is equal.
    """
    if ref.spec.dtype != inferred.dtype or ref.spec.rank != inferred.rank:
        return False
    for axis, (size, by_rule) in enumerate(zip(ref.spec.shape, inferred.shape)):
        is_own_axis = not is_static(by_rule) and is_equal(size, Dim.atom("axis", ref, axis))
        if not (not is_static(size) if by_rule is None else is_own_axis or is_equal(size, by_rule)):
            return False
    return True

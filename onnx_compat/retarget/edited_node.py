"""EditedNode: a node that rules rewrite for another version of its operator, and the constants that it reads then."""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.retarget.inferred_facts import NO_FACT, Fact, NodeFacts, Shape

if TYPE_CHECKING:
    import onnx

__all__ = ["EditedNode", "Inexpressible", "NewConstant", "UnknownValue"]

#: The Python value of an attribute.
AttributeValue = Any


class Inexpressible(Exception):
    """Raised if a node has no form at the target, or cannot be composed. The text is the reason."""


class UnknownValue(Inexpressible):
    """Raised by a rule that needs the elements of an input that are not known. `name`: the name of the input."""

    def __init__(self, name: str) -> None:
        super().__init__("the value of '%s' is not a constant of the model" % name)
        self.name = name


class NewConstant(NamedTuple):
    """A constant that the new form of a node reads as an input.

    - placeholder: the name that the input has until the constant gets a name.
    - label: the end of the constant's name.
    """

    placeholder: str
    label: str
    array: np.ndarray
    dtype: DType


class EditedNode:
    """A copy of a node that rules edit for another version of its operator. The node itself stays.

    - proto: the copy of the NodeProto.
    - facts: a function that returns the types, shapes and known values of the original node's inputs and outputs.
    - constants: the new constants that the copy reads. An input has the placeholder of its constant as its name.
    - caveats: in which cases the results of the copy may differ, as texts for the plan.
    """

    def __init__(self, node: "onnx.NodeProto", facts: Callable[[], NodeFacts]) -> None:
        self.proto = type(node)()
        self.proto.CopyFrom(node)
        self.constants: List[NewConstant] = []
        self.caveats: List[str] = []
        #: Whether the node comes from Upsample, whose scales are at least 1 by its specification.
        self.only_enlarges = False
        self._infer_facts = facts
        self._inputs = list(node.input)
        self._facts: Dict[str, Fact] = {}
        self._has_facts = False

    # attributes

    def get(self, name: str, default: AttributeValue = None) -> AttributeValue:
        """Return the value of an attribute: int, float, str, list, TensorProto or GraphProto. `default` if absent.

        Raises Inexpressible for a reference to an attribute of a function, whose value each call sets.
        """
        import onnx

        for attribute in self.proto.attribute:
            if attribute.name == name:
                if attribute.ref_attr_name:
                    raise Inexpressible("its attribute '%s' is set by each call of its function" % name)
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        return default

    def has(self, name: str) -> bool:
        return any(attribute.name == name for attribute in self.proto.attribute)

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute to a Python value. It replaces an attribute of that name, or comes last.

        An empty list becomes an attribute of type INTS.
        """
        import onnx

        if isinstance(value, list) and not value:  # onnx cannot tell the type of an empty list
            attribute_proto = onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS)
        else:
            attribute_proto = onnx.helper.make_attribute(name, value)
        for attribute in self.proto.attribute:
            if attribute.name == name:
                attribute.CopyFrom(attribute_proto)
                return
        self.proto.attribute.append(attribute_proto)

    def drop(self, *names: str) -> None:
        """Remove the attributes with these names. Names that the node does not have are ignored."""
        kept = [attribute for attribute in self.proto.attribute if attribute.name not in names]
        if len(kept) < len(self.proto.attribute):
            kept = [type(attribute).FromString(attribute.SerializeToString()) for attribute in kept]
            del self.proto.attribute[:]
            self.proto.attribute.extend(kept)

    def drop_default(self, name: str, default: AttributeValue, also: Sequence[AttributeValue] = ()) -> None:
        """Remove the attribute `name`, which the other version lacks, if its value has no effect.

        Raises Inexpressible for a value that has an effect. `default` and the values in `also` have none. A `default`
        of () stands for a list of ones of any length.
        """
        value = self.get(name, default)
        value = list(value) if isinstance(value, (list, tuple)) or hasattr(value, "append") else value
        no_effect = [default, *also]
        if value not in no_effect and not (default == () and isinstance(value, list) and all(v == 1 for v in value)):
            raise Inexpressible("the other version has no attribute '%s', and it is %r" % (name, value))
        self.drop(name)

    # inputs and outputs

    def has_input(self, index: int) -> bool:
        """Whether the node has input number `index`. False for an omitted input."""
        return index < len(self.proto.input) and bool(self.proto.input[index])

    def has_output(self, index: int) -> bool:
        """Whether the node has output number `index`. False for an omitted output."""
        return index < len(self.proto.output) and bool(self.proto.output[index])

    def fact(self, index: int) -> Fact:
        """Return the fact of input number `index` of the edited node. `NO_FACT` for an omitted or missing input."""
        if not self._has_facts:
            self._has_facts = True
            known_facts = dict(zip(self._inputs, self._infer_facts().inputs))
            self._facts = dict(known_facts, **self._facts)
        return self._facts.get(self.proto.input[index], NO_FACT) if index < len(self.proto.input) else NO_FACT

    def extents(self, index: int) -> Optional[Sequence[Optional[Extent]]]:
        """Return the sizes of an input: ints and symbolic sizes (`Dim`). None if its rank is not known.

        A size that is not known at all is None.
        """
        fact = self.fact(index)
        return fact.shape if fact.extents is None else fact.extents

    def output_shape(self, index: int) -> Shape:
        """Return the shape of an output of the original node; None if its rank is not known."""
        return self._infer_facts().output(index).shape

    def output_rank(self, index: int) -> Optional[int]:
        """Return the rank of an output of the original node; None if it is unknown."""
        return self._infer_facts().output(index).rank

    def set_input(self, index: int, name: str) -> None:
        """Make the value `name` input number `index`; "" omits the input.

        Missing inputs before it become omitted inputs. Then omitted inputs at the end of the list are removed.
        """
        while len(self.proto.input) <= index:
            self.proto.input.append("")
        self.proto.input[index] = name
        while self.proto.input and not self.proto.input[-1]:
            del self.proto.input[-1]

    def drop_input(self, index: int) -> None:
        """Omit an input. Omitted inputs at the end of the list are removed."""
        if index < len(self.proto.input):
            self.set_input(index, "")

    def add_input(self, index: int, label: str, value: object, dtype: DType = int64) -> None:
        """Make a new constant of the elements `value` input number `index`. `label` is the end of its name."""
        array = np.asarray(value, dtype.numpy)
        placeholder = "\0%d" % len(self.constants)
        self.constants.append(NewConstant(placeholder, label, array, dtype))
        self._facts[placeholder] = Fact("tensor(%s)" % dtype.spelling, array.shape, array)
        self.set_input(index, placeholder)

    # facts

    def rank(self, index: int = 0) -> int:
        """Return the rank of an input. Raises Inexpressible if it is unknown."""
        rank = self.fact(index).rank
        if rank is None:
            raise Inexpressible("the rank of '%s' is not known" % self.proto.input[index])
        return rank

    def dtype(self, index: int = 0) -> DType:
        """Return the dtype of an input. Raises Inexpressible if it is unknown."""
        dtype = self.fact(index).dtype
        if dtype is None:
            raise Inexpressible("the type of '%s' is not known" % self.proto.input[index])
        return dtype

    def array_of(self, index: int) -> np.ndarray:
        """Return the elements of an input as a carrier array.

        Raises UnknownValue if they are not known: they are computed at run time, or they are too many to be kept.
        """
        value = self.fact(index).value
        if value is None:
            raise UnknownValue(self.proto.input[index])
        return value

    def integers_of(self, index: int) -> List[int]:
        """Return the elements of an input as a list of ints. Raises UnknownValue if they are not known."""
        return [int(item) for item in self.array_of(index).reshape(-1)]

    def size(self, index: int, axis: int) -> Optional[int]:
        """Return the size of an axis of an input. None if it is unknown or symbolic, or if the input lacks the axis."""
        shape = self.fact(index).shape
        return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None

"""The operators that a target offers: an operator set of ONNX, as far as the installed onnx knows it."""

from typing import Any, Dict, Mapping, Optional, Sequence

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.attribute_values import has_values
from onnx_compat.onnx_shim.signatures import Signature, newest_opset, signature_of

__all__ = ["OLDEST", "OperatorOffer"]

#: The oldest operator set for which every primitive has a lowering or a declared gap.
OLDEST = 9

Dtypes = Sequence[Optional[DType]]


class OperatorOffer:
    """The abilities of a target: the operators of an operator set, with their dtypes.

    opset: the version of ai.onnx.
    opsets: domain -> version, of any other domain that the target has. The attribute has ai.onnx ("") too.
    newest_ir_version: the newest IR version that the target reads; None: it reads every version.
    """

    def __init__(
        self, opset: int, opsets: Optional[Mapping[str, int]] = None, newest_ir_version: Optional[int] = None
    ) -> None:
        """Raises UnsupportedError for an `opset` below `OLDEST`, or newer than the installed onnx knows."""
        newest = newest_opset()
        if not OLDEST <= opset <= newest:
            raise UnsupportedError(
                "there is no writer for opset %s" % opset,
                hint="choose an opset from %d to %d; a later onnx knows newer ones" % (OLDEST, newest),
            )
        self.opsets: Dict[str, int] = {"": opset, **(opsets or {})}
        self.newest_ir_version = newest_ir_version

    @property
    def opset(self) -> int:
        """The version of ai.onnx."""
        return self.opsets[""]

    def signature(self, operator: str, domain: str = "") -> Optional[Signature]:
        """Return the signature of an operator at the target's version. None: the target lacks the operator."""
        version = self.opsets.get(domain)
        return None if version is None else signature_of(domain, operator, version)

    def has(
        self,
        operator: str,
        inputs: Dtypes,
        outputs: Dtypes,
        attributes: Optional[Mapping[str, Any]] = None,
        domain: str = "",
    ) -> bool:
        """Whether the target has an operator for these dtypes of inputs and outputs, with these attributes.

        A dtype of None is an omitted input, or an output of any dtype.
        """
        return self._can_take(operator, inputs, outputs, attributes or {}, domain)

    def has_call(
        self,
        operator: str,
        inputs: Dtypes,
        outputs: int,
        attributes: Optional[Mapping[str, Any]] = None,
        domain: str = "",
    ) -> bool:
        """Whether the target has an operator for these dtypes of inputs, with these attributes.

        - inputs: a dtype for each input; None for an omitted input.
        - outputs: the number of results, of any dtypes.
        """
        return self.has(operator, inputs, [None] * outputs, attributes, domain)

    def _can_take(
        self, operator: str, inputs: Dtypes, outputs: Dtypes, attributes: Mapping[str, Any], domain: str
    ) -> bool:
        """Whether the operator set has an operator for these dtypes, with these attributes and their values."""
        signature = self.signature(operator, domain)
        if signature is None or any(name not in signature.attributes for name in attributes):
            return False
        if not domain and not has_values(operator, attributes, self.opset):
            return False
        return signature.can_take(inputs, outputs)

    #: Where the operators come from, for messages.
    origin_text = ""

    def is_reliable(self, behaviour: str, dtype: Optional[DType] = None) -> bool:
        """Return True: an operator set behaves as the specification says. `RuntimeOffer` finds out by trials.

        - behaviour: a key of `BEHAVIOURS`, or "Cast to " and the name of a carried dtype.
        - dtype: the dtype of the floats; None: any.
        """
        return True

    def has_tensors(self, dtype: DType) -> bool:
        """Whether the target has tensors of a dtype: whether Identity takes them."""
        return self.has("Identity", [dtype], [dtype])

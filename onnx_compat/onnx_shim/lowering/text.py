"""Primitives on strings, and on image files, as ONNX operators."""

from typing import Any, Dict, Optional, Tuple

from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.base import WRAPPING
from onnx_compat.onnx_shim.lowering.random import RandomLowering

__all__ = ["TextLowering"]


class TextLowering(RandomLowering):
    """The primitives of `onnx_compat.primitives.text` and of `onnx_compat.primitives.images`."""

    def string_lower(self, x: Value) -> Value:
        return self._normalize_case(x, "LOWER")

    def string_upper(self, x: Value) -> Value:
        return self._normalize_case(x, "UPPER")

    def _normalize_case(self, x: Value, case: str) -> Value:
        """Return texts with another case, by StringNormalizer, which takes vectors.

        StringNormalizer returns [""] for a vector without elements. So a text is added if there may be none.
        """
        if 0 in x.shape:
            return x
        flat = self.flat(x)
        is_open = None in x.shape and not self._has_elements(flat)
        guarded = self.join([flat, self.flat(self.scalar("", dtypes.string))]) if is_open else flat
        changed = self.call("StringNormalizer", [guarded], shape=guarded.shape, case_change_action=case)
        if guarded is not flat:
            changed = self.gather(changed, self.iota(self.scalar(self.dim(flat, 0), dtypes.int64)), 0)
        return self.shaped_like(changed, x)

    def _has_elements(self, vector: Value) -> bool:
        """Whether a vector was joined of vectors of which one has elements."""
        joined = self.builder.producer_of(vector, "Concat")
        return joined is not None and any(part is not None and bool(part.shape[0]) for part in joined.inputs)

    def string_concat(self, x: Value, y: Value) -> Value:
        return self.call("StringConcat", [x, y])

    def string_match(self, x: Value, pattern: str) -> Value:
        return self.call("RegexFullMatch", [x], result=dtypes.bool_, pattern=pattern)

    def string_split(self, x: Value, delimiter: Optional[str], limit: Optional[int]) -> Tuple[Value, Value]:
        behaviour = "StringSplit at white space" if delimiter is None else "StringSplit"
        if not self.offer.is_reliable(behaviour):
            raise self.refusal(behaviour, x.dtype)
        attributes: Dict[str, Any] = {} if delimiter is None else {"delimiter": delimiter}
        if limit is not None:
            attributes["maxsplit"] = limit
        types = [(dtypes.string, (*x.shape, None)), (dtypes.int64, x.shape)]
        results = self.attempts("StringSplit", [x], types, **attributes)
        if results is None:
            raise self.refusal("StringSplit", x.dtype)
        return results[0], results[1]

    def string_rank(self, x: Value) -> Value:
        return self.shaped_like(self._ranks(self.flat(x)), x)

    def _ranks(self, flat: Value) -> Value:
        """Return the rank of each text of a vector among the distinct texts.

        Raises UnsupportedError if the target lacks Unique.
        """
        indices = [(dtypes.int64, (None,))] * 3
        results = self.attempts("Unique", [flat], [(dtypes.string, (None,)), *indices], sorted=1)
        if results is None:
            raise self.refusal("Unique", flat.dtype)
        results[2].shape = flat.shape
        return results[2]

    def equal_texts(self, x: Value, y: Value) -> Value:
        """Return whether texts are equal, by their ranks: opset 18 compares no texts."""
        shape = self.broadcast(x, y)
        flat = [self.flat(x), self.flat(y)]
        ranks = self._ranks(self.join(flat))
        count = self.scalar(self.dim(flat[0], 0), dtypes.int64)
        total = self.scalar(self.dim(ranks, 0), dtypes.int64)
        first = self.gather(ranks, self.iota(count), 0)
        rest = self.iota(self.sub(total, count))
        second = self.gather(ranks, self.add(rest, count), 0)
        parts = [self.shaped_like(part, value) for part, value in ((first, x), (second, y))]
        return self.call("Equal", parts, ladder=WRAPPING, result=dtypes.bool_, shape=shape)

    def to_text(self, x: Value, dtype: DType) -> Value:
        if dtype.kind == "b":
            return self.where(x, self.scalar("True", dtypes.string), self.scalar("False", dtypes.string))
        if dtype.kind == "f":  # the digits are not defined; onnxruntime writes at most eight
            raise self.refusal("Cast to texts that read back as the same number", dtype)
        return self.call("Cast", [x], result=dtypes.string, to=dtypes.string.onnx)

    def from_text(self, x: Value, dtype: DType) -> Value:
        number = self.convert(x, dtypes.float64)
        if dtype.kind not in "iu":
            return self.cast(number, dtype)
        wide = dtypes.uint64 if dtype.kind == "u" else dtypes.int64
        whole = self.convert(x, wide)  # exact, but only the digits before an exponent are read
        is_plain = self.equal(self.convert(whole, dtypes.float64), number)
        return self.convert(self.where(is_plain, whole, self.convert(number, wide)), dtype)

    def image_decode(self, data: Value, channels: int) -> Value:
        results = self.attempts(
            "ImageDecoder",
            [data],
            [(dtypes.uint8, (None, None, channels))],
            pixel_format="RGB" if channels == 3 else "Grayscale",
        )
        if results is None:
            raise self.refusal("ImageDecoder", data.dtype)
        return results[0]

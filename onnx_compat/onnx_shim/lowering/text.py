"""Primitives on strings, and on image files, as ONNX operators."""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

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
        shape = self.broadcast(x, y)
        return self._empty(shape, dtypes.string) if _is_empty(shape) else self.call("StringConcat", [x, y])

    def string_match(self, x: Value, pattern: str) -> Value:
        if _is_empty(x.shape):
            return self._empty(x.shape, dtypes.bool_)
        return self.call("RegexFullMatch", [x], result=dtypes.bool_, pattern=pattern)

    def _empty(self, shape: Sequence[Any], dtype: DType) -> Value:
        """Return a constant without elements."""
        return self.builder.constant(np.zeros(shape, dtype.numpy), dtype)

    def string_split(self, x: Value, delimiter: Optional[str], limit: Optional[int]) -> Tuple[Value, Value]:
        if _is_empty(x.shape):
            return self._empty((*x.shape, 0), dtypes.string), self._empty(x.shape, dtypes.int64)
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
        """Return whether texts are equal, by their ranks: opset 18 compares no texts, and opset 9 has no Unique."""
        shape = self.broadcast(x, y)
        if self.offer.signature("Unique") is None:
            open_texts, texts = (x, y.array) if x.array is None else (y, x.array)
            if texts is not None and texts.size:
                return self._equal_known(open_texts, texts, shape)
        flat = [self.flat(x), self.flat(y)]
        ranks = self._ranks(self.join(flat))
        count = self.scalar(self.dim(flat[0], 0), dtypes.int64)
        total = self.scalar(self.dim(ranks, 0), dtypes.int64)
        first = self.gather(ranks, self.iota(count), 0)
        rest = self.iota(self.sub(total, count))
        second = self.gather(ranks, self.add(rest, count), 0)
        parts = [self.shaped_like(part, value) for part, value in ((first, x), (second, y))]
        return self.call("Equal", parts, ladder=WRAPPING, result=dtypes.bool_, shape=shape)

    def _equal_known(self, x: Value, texts: np.ndarray, shape: Sequence[Any]) -> Value:
        """Return whether texts equal known texts, by TfIdfVectorizer: it counts the known texts in each text.

        Each known text gets a number from 1 on, any other text the number 0. `shape`: the shape of the result.
        """
        names = sorted(set(texts.reshape(-1).tolist()))
        codes_of_names = {name: code for code, name in enumerate(names, 1)}
        numbers = np.asarray([codes_of_names[text] for text in texts.reshape(-1)], np.int32).reshape(texts.shape)
        flat = self.flat(x)
        if not flat.shape[0]:  # TfIdfVectorizer of onnxruntime takes no empty tensor
            flat = self.join([flat, self.flat(self.scalar("", dtypes.string))])
        column = self.with_sizes(flat, [-1, 1], [flat.shape[0], 1])
        counts = self.call(
            "TfIdfVectorizer",
            [column],
            result=dtypes.float32,
            shape=(flat.shape[0], len(names)),
            mode="TF",
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
            ngram_counts=[0],
            ngram_indexes=list(range(len(names))),
            pool_strings=names,
        )
        factors = self.vector(np.arange(1, len(names) + 1, dtype=np.float32))
        codes = self.convert(self.reduce_sum(self.mul(counts, factors), [1], False), dtypes.int32)
        total = self.scalar(self.dim(self.flat(x), 0), dtypes.int64)
        codes = self.shaped_like(self.gather(codes, self.iota(total), 0), x)
        return self.call("Equal", [codes, self.array_value(numbers)], result=dtypes.bool_, shape=shape)

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


def _is_empty(shape: Sequence[Any]) -> bool:
    """Whether a shape is known and has no elements."""
    return None not in shape and 0 in shape

"""Attention operators of com.microsoft, compared with onnxruntime. Each model is prepared once for several sizes."""

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
import pytest
from onnx import helper

import onnx_compat
from matrix.harness.generators import per_test

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.31")

RANDOM = per_test(np.random.RandomState(7))


class Case(NamedTuple):
    """A node with its inputs by ONNX name, and their sizes. A size that is a word is symbolic."""

    operator: str
    attributes: Dict[str, Any]
    inputs: Dict[str, Any]
    outputs: int = 1


#: The inputs of each operator, in order.
ORDER = {
    "Attention": "input weights bias mask_index past attention_bias past_sequence_length",
    "MultiHeadAttention": "query key value bias key_padding_mask attention_bias past_key past_value"
    " past_sequence_length cache_indirection",
    "DecoderMaskedMultiHeadAttention": "query key value mask_index attention_bias past_key past_value"
    " past_sequence_length beam_width cache_indirection bias",
    "GroupQueryAttention": "query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache"
    " position_ids attention_bias head_sink",
    "RotaryEmbedding": "input position_ids cos_cache sin_cache",
}


def floats(*sizes: int) -> np.ndarray:
    return RANDOM.randn(*sizes).astype(np.float32)


def numbers(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def proto(case: Case, dtype: Any) -> Any:
    names = [name if name in case.inputs else "" for name in ORDER[case.operator].split()]
    while not names[-1]:
        names.pop()
    outputs = ["out%d" % k for k in range(case.outputs)]
    node = helper.make_node(case.operator, names, outputs, domain="com.microsoft", name="it", **case.attributes)
    inputs = []
    for name, (array, sizes) in case.inputs.items():
        dims = [int(size) if size.isdigit() else size for size in sizes.split()]
        kind = helper.np_dtype_to_tensor_dtype(_cast_floats(array, dtype).dtype)
        inputs.append(helper.make_tensor_value_info(name, kind, dims))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", inputs, results), opset_imports=opsets, ir_version=8)


def _cast_floats(array: np.ndarray, dtype: Any) -> np.ndarray:
    return array.astype(dtype) if array.dtype == np.float32 else array


def check(case: Case, dtype: Any = np.float32, tolerance: float = 2e-4) -> List[np.ndarray]:
    """Assert that every output agrees with onnxruntime. Return the outputs of this library."""
    model = proto(case, dtype)
    feed = {name: _cast_floats(array, dtype) for name, (array, _) in case.inputs.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feed)
    runnable = onnx_compat.prepare(model, shim="reference")
    got = list(runnable.run(feed))
    assert not runnable.fallbacks
    for ours, theirs in zip(got, expected):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(
            ours.astype(np.float32), theirs.astype(np.float32), rtol=tolerance, atol=tolerance / 10
        )
    return got


# -- Attention ---------------------------------------------------------------------------------------------------------
B, S, N, H = 2, 5, 4, 8
D = N * H


def packed_case(v_size: int = D, **more: Any) -> Dict[str, Any]:
    inputs = {
        "input": (floats(B, S, 12), "b s 12"),
        "weights": (floats(12, 2 * D + v_size), "12 %d" % (2 * D + v_size)),
    }
    return {**inputs, "bias": (floats(2 * D + v_size), str(2 * D + v_size)), **more}


def full_ones(*sizes: int) -> np.ndarray:
    """Return an attention mask with one or two zeros. The first key is never masked."""
    mask = (RANDOM.rand(*sizes) < 0.7).astype(np.int32)
    mask[..., 0] = 1
    return mask


PAST = (floats(2, B, N, 3, H), "2 b %d p %d" % (N, H))
ATTENTION = {
    "plain": Case("Attention", {}, packed_case()),
    "scaled": Case("Attention", {"scale": 0.3}, packed_case()),
    "other size of values": Case("Attention", {"qkv_hidden_sizes": [D, D, 2 * D]}, packed_case(2 * D)),
    "forward": Case("Attention", {"unidirectional": 1}, packed_case()),
    "ends": Case("Attention", {}, packed_case(mask_index=(numbers(5, 3), "b"))),
    "ends and starts": Case("Attention", {}, packed_case(mask_index=(numbers(5, 4, 1, 2), "m"))),
    "lengths and offsets": Case("Attention", {}, packed_case(mask_index=(numbers(5, 3, 0, 5, 8, 0, 5, 8), "m"))),
    "mask of keys": Case("Attention", {}, packed_case(mask_index=(full_ones(B, S), "b s"))),
    "mask of pairs": Case("Attention", {}, packed_case(mask_index=(full_ones(B, S, S), "b s s"))),
    "nothing but padding": Case("Attention", {}, packed_case(mask_index=(numbers(0, 3), "b"))),
    "filled otherwise": Case(
        "Attention", {"mask_filter_value": -2.0}, packed_case(mask_index=(full_ones(B, S), "b s"))
    ),
    "mask, forward": Case("Attention", {"unidirectional": 1}, packed_case(mask_index=(full_ones(B, S), "b s"))),
    "bias": Case("Attention", {}, packed_case(attention_bias=(floats(B, N, S, S), "b %d s s" % N))),
    "bias for all": Case("Attention", {}, packed_case(attention_bias=(floats(1, 1, S, S), "1 1 s s"))),
    "bias and mask": Case(
        "Attention",
        {},
        packed_case(attention_bias=(floats(1, N, S, S), "1 %d s s" % N), mask_index=(full_ones(B, S), "b s")),
    ),
    "present": Case("Attention", {"unidirectional": 1}, packed_case(), 2),
    "past": Case("Attention", {}, packed_case(past=PAST), 2),
    "past, forward": Case("Attention", {"unidirectional": 1}, packed_case(past=PAST), 2),
    "past, mask": Case(
        "Attention", {"unidirectional": 1}, packed_case(past=PAST, mask_index=(full_ones(B, S + 3), "b t")), 2
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    case = ATTENTION[name]
    check(case._replace(attributes={"num_heads": N, **case.attributes}))


# -- MultiHeadAttention ------------------------------------------------------------------------------------------------
L = 6


def apart(**more: Any) -> Dict[str, Any]:
    cross = {"query": (floats(B, S, D), "b s %d" % D), "key": (floats(B, L, D), "b l %d" % D)}
    return {**cross, "value": (floats(B, L, 2 * D), "b l %d" % (2 * D)), **more}


def cached_case(steps: int, past: int, **more: Any) -> Dict[str, Any]:
    inputs = {name: (floats(B, steps, D), "b s %d" % D) for name in ("query", "key", "value")}
    caches = {name: (floats(B, N, past, H), "b %d p %d" % (N, H)) for name in ("past_key", "past_value")}
    return {**inputs, **caches, **more}


WHOLE = {name: (floats(B, N, L, H), "b %d l %d" % (N, H)) for name in ("key", "value")}
MULTI = {
    "cross": Case("MultiHeadAttention", {}, apart()),
    "scaled": Case("MultiHeadAttention", {"scale": 0.7}, apart()),
    "biased": Case("MultiHeadAttention", {}, apart(bias=(floats(4 * D), str(4 * D)))),
    "ends": Case("MultiHeadAttention", {}, apart(key_padding_mask=(numbers(6, 2), "b"))),
    "mask of keys": Case("MultiHeadAttention", {}, apart(key_padding_mask=(full_ones(B, L), "b l"))),
    "mask of pairs": Case("MultiHeadAttention", {}, apart(key_padding_mask=(full_ones(B, S, L), "b s l"))),
    "added": Case("MultiHeadAttention", {}, apart(attention_bias=(floats(1, N, S, L), "1 %d s l" % N))),
    "added to each": Case("MultiHeadAttention", {}, apart(attention_bias=(floats(B, 1, S, L), "b 1 s l"))),
    "whole keys": Case("MultiHeadAttention", {}, {"query": (floats(B, S, D), "b s %d" % D), **WHOLE}),
    "past": Case("MultiHeadAttention", {}, cached_case(1, 4), 3),
    "past of several steps": Case("MultiHeadAttention", {"unidirectional": 1}, cached_case(3, 4), 3),
    "no past yet": Case("MultiHeadAttention", {"unidirectional": 1}, cached_case(5, 0), 3),
    "past, mask": Case("MultiHeadAttention", {}, cached_case(1, 4, key_padding_mask=(full_ones(B, 5), "b t")), 3),
    "past, bias": Case("MultiHeadAttention", {}, cached_case(2, 4, bias=(floats(3 * D), str(3 * D))), 3),
    "scores": Case("MultiHeadAttention", {}, cached_case(2, 4, attention_bias=(floats(1, 1, 2, 6), "1 1 s t")), 4),
    "buffer": Case("MultiHeadAttention", {}, cached_case(1, 7, past_sequence_length=(numbers(4), "1")), 3),
    "buffer, no step yet": Case("MultiHeadAttention", {}, cached_case(2, 7, past_sequence_length=(numbers(0), "1")), 3),
    "buffer, last steps": Case("MultiHeadAttention", {}, cached_case(3, 7, past_sequence_length=(numbers(4), "k")), 3),
    "buffer, causal": Case(
        "MultiHeadAttention", {"unidirectional": 1}, cached_case(3, 7, past_sequence_length=(numbers(2), "1")), 3
    ),
    "buffer, mask": Case(
        "MultiHeadAttention",
        {},
        cached_case(1, 7, past_sequence_length=(numbers(4), "1"), key_padding_mask=(full_ones(B, 5), "b t")),
        3,
    ),
    "buffer, one beam": Case(
        "MultiHeadAttention",
        {},
        cached_case(
            1, 7, past_sequence_length=(numbers(4), "1"), cache_indirection=(np.zeros((B, 1, 7), np.int32), "b 1 p")
        ),
        3,
    ),
}


@pytest.mark.parametrize("name", MULTI)
def test_multi_head_attention(name: str) -> None:
    case = MULTI[name]
    check(case._replace(attributes={"num_heads": N, **case.attributes}))


def test_multi_head_attention_of_packed_inputs() -> None:
    """onnxruntime has packed inputs on GPUs only. The expected value is that of separate query, key and value."""
    q, k, v = (floats(B, S, N, H) for _ in range(3))
    flat = [x.reshape(B, S, D) for x in (q, k, v)]
    case = Case("MultiHeadAttention", {"num_heads": N}, {"query": (np.stack([q, k, v], 3), "b s %d 3 %d" % (N, H))})
    whole = {name: (x, "b s %d" % D) for name, x in zip(("query", "key", "value"), flat)}
    (expected,) = check(case._replace(inputs=whole))
    pair = {"query": (flat[0], "b s %d" % D), "key": (np.stack([k, v], 3), "b s %d 2 %d" % (N, H))}
    for inputs in (case.inputs, pair):
        model = proto(case._replace(inputs=inputs), np.float32)
        (got,) = onnx_compat.run(model, {name: array for name, (array, _) in inputs.items()}, shim="reference")
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def shared_case(**more: Any) -> Case:
    """Return a decoder step after four earlier steps, with a key-value buffer of length seven."""
    inputs = cached_case(1, 7, past_sequence_length=(numbers(4), "1"), **more)
    return Case("DecoderMaskedMultiHeadAttention", {"past_present_share_buffer": 1}, inputs, 3)


CROSS = {"query": (floats(B, 1, D), "b 1 %d" % D), **WHOLE}
DECODER = {
    "step": shared_case(),
    "mask": shared_case(mask_index=(full_ones(B, 5), "b t")),
    "bias": shared_case(bias=(floats(3 * D), str(3 * D))),
    "added": shared_case(attention_bias=(floats(1, N, 1, 5), "1 %d 1 t" % N)),
    "whole keys": Case("DecoderMaskedMultiHeadAttention", {}, CROSS),
    "whole keys, mask": Case("DecoderMaskedMultiHeadAttention", {}, {**CROSS, "mask_index": (full_ones(B, L), "b l")}),
}


@pytest.mark.parametrize("name", DECODER)
def test_decoder_masked_multi_head_attention(name: str) -> None:
    case = DECODER[name]
    check(case._replace(attributes={"num_heads": N, **case.attributes}))


# -- GroupQueryAttention -----------------------------------------------------------------------------------------------
K, W = 2, 16  # heads of keys, and the size of a head
QW, KW = N * W, K * W
ANGLES = {
    name: (np.float32(f(np.outer(np.arange(20), 0.5 ** np.arange(W // 2)))), "m %d" % (W // 2))
    for name, f in (("cos_cache", np.cos), ("sin_cache", np.sin))
}


def few(steps: int, lengths: Sequence[int], total: int, past: int = 0, batch: int = B, **more: Any) -> Dict[str, Any]:
    inputs: Dict[str, Any] = {"query": (floats(batch, steps, QW), "b s %d" % QW)}
    inputs.update({name: (floats(batch, steps, KW), "b s %d" % KW) for name in ("key", "value")})
    sizes = "b %d p %d" % (K, W)
    inputs.update({name: (floats(batch, K, past, W), sizes) for name in ("past_key", "past_value")})
    inputs["seqlens_k"] = (numbers(*[length - 1 for length in lengths]), "b")
    inputs["total_sequence_length"] = (numbers(total), "1")
    return {**inputs, **more}


def merge_inputs(inputs: Dict[str, Any]) -> Dict[str, Any]:
    whole = np.concatenate([inputs[name][0] for name in ("query", "key", "value")], 2)
    rest = {name: value for name, value in inputs.items() if name not in ("query", "key", "value")}
    return {"query": (whole, "b s %d" % (QW + 2 * KW)), **rest}


def without_past(inputs: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in inputs.items() if not name.startswith("past")}


PROMPT, STEP, CHUNK = (5, [5, 5], 5), (1, [4, 6], 6, 5), (3, [7], 7, 4, 1)
GROUPS = {
    "prompt": Case("GroupQueryAttention", {}, few(*PROMPT), 3),
    "prompt without a past": Case("GroupQueryAttention", {}, without_past(few(*PROMPT)), 3),
    "prompt into a buffer": Case("GroupQueryAttention", {}, few(*PROMPT, past=9), 3),
    "merged": Case("GroupQueryAttention", {}, merge_inputs(few(*PROMPT)), 3),
    "step": Case("GroupQueryAttention", {}, few(*STEP), 3),
    "step into a buffer": Case("GroupQueryAttention", {}, few(1, [4, 6], 6, 9), 3),
    "chunk": Case("GroupQueryAttention", {}, few(*CHUNK), 3),
    "scaled": Case("GroupQueryAttention", {"scale": 0.4}, few(*STEP), 3),
    "capped": Case("GroupQueryAttention", {"softcap": 1.5}, few(*PROMPT), 3),
    "window": Case("GroupQueryAttention", {"local_window_size": 2}, few(*PROMPT), 3),
    "window of a step": Case("GroupQueryAttention", {"local_window_size": 3}, few(*STEP), 3),
    "window of one": Case("GroupQueryAttention", {"local_window_size": 1}, few(*PROMPT), 3),
    "smooth": Case("GroupQueryAttention", {"smooth_softmax": 1}, few(*PROMPT), 3),
    "sink": Case("GroupQueryAttention", {}, few(*STEP, head_sink=(floats(N), str(N))), 3),
    "rotary": Case("GroupQueryAttention", {"do_rotary": 1}, few(*PROMPT, **ANGLES), 3),
    "rotary step": Case("GroupQueryAttention", {"do_rotary": 1}, few(*STEP, **ANGLES), 3),
    "rotary chunk": Case("GroupQueryAttention", {"do_rotary": 1}, few(*CHUNK, **ANGLES), 3),
    "rotary interleaved": Case(
        "GroupQueryAttention", {"do_rotary": 1, "rotary_interleaved": 1}, merge_inputs(few(*STEP, **ANGLES)), 3
    ),
    "added": Case("GroupQueryAttention", {}, few(*PROMPT, attention_bias=(floats(B, N, 5, 5), "b %d s t" % N)), 3),
    "added, capped": Case(
        "GroupQueryAttention", {"softcap": 2.0}, few(*STEP, attention_bias=(floats(1, 1, 1, 6), "1 1 s t")), 3
    ),
    "both ways": Case("GroupQueryAttention", {"causal": 0}, few(*PROMPT), 3),
    "scores": Case("GroupQueryAttention", {"qk_output": 1}, few(*CHUNK), 4),
    "capped scores": Case("GroupQueryAttention", {"qk_output": 1, "softcap": 1.0}, few(*PROMPT), 4),
    "added scores": Case(
        "GroupQueryAttention",
        {"qk_output": 1, "local_window_size": 2},
        few(*PROMPT, attention_bias=(floats(B, N, 5, 5), "b %d s t" % N)),
        4,
    ),
    "weights": Case("GroupQueryAttention", {"qk_output": 2}, few(*PROMPT), 4),
    "rotary with position_ids": Case(
        "GroupQueryAttention",
        {"do_rotary": 1},
        few(*CHUNK, position_ids=(np.array([[2, 9, 4]]), "b s"), **ANGLES),
        3,
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", GROUPS)
def test_group_query_attention(name: str, dtype: Any) -> None:
    case = GROUPS[name]
    attributes = {"num_heads": N, "kv_num_heads": K, **case.attributes}
    check(case._replace(attributes=attributes), dtype, 2e-4 if dtype == np.float32 else 2e-2)


def test_prompts_of_several_lengths() -> None:
    """The outputs at padding positions are undefined. All other outputs are compared."""
    case = Case("GroupQueryAttention", {"num_heads": N, "kv_num_heads": K}, few(5, [3, 5], 5))
    model = proto(case, np.float32)
    feed = {name: array for name, (array, _) in case.inputs.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,), (got,) = session.run(None, feed), onnx_compat.run(model, feed, shim="reference")
    np.testing.assert_allclose(got[0, :3], expected[0, :3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-4, atol=1e-5)


# -- RotaryEmbedding ---------------------------------------------------------------------------------------------------
def turning(x: Any, positions: Any, half: int) -> Dict[str, Any]:
    angles = {name: (floats(9, half), "m %d" % half) for name in ("cos_cache", "sin_cache")}
    return {"input": x, "position_ids": positions, **angles}


FLAT, HEADS = (floats(B, S, D), "b s %d" % D), (floats(B, N, S, H), "b %d s %d" % (N, H))
EACH, FIRST = (RANDOM.randint(0, 9, (B, S)), "b s"), (np.array([3]), "1")
PARTIAL = {"num_heads": N, "rotary_embedding_dim": 4}
TURNED = {
    "heads told by the cache": Case("RotaryEmbedding", {}, turning(FLAT, EACH, H // 2)),
    "a first position": Case("RotaryEmbedding", {}, turning(FLAT, FIRST, H // 2)),
    "neighbours": Case("RotaryEmbedding", {"interleaved": 1}, turning(FLAT, EACH, H // 2)),
    "in heads": Case("RotaryEmbedding", {}, turning(HEADS, EACH, H // 2)),
    "in heads, neighbours": Case("RotaryEmbedding", {"interleaved": 1}, turning(HEADS, FIRST, H // 2)),
    "a part": Case("RotaryEmbedding", PARTIAL, turning(FLAT, EACH, 2)),
    "a part in heads": Case("RotaryEmbedding", PARTIAL, turning(HEADS, EACH, 2)),
    "a scale that is not read": Case("RotaryEmbedding", {"scale": 3.0}, turning(FLAT, EACH, H // 2)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", TURNED)
def test_rotary_embedding(name: str, dtype: Any) -> None:
    check(TURNED[name], dtype, 2e-4 if dtype == np.float32 else 1e-2)

"""Attention operators, prepared once and run on several batch sizes and lengths."""

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from building import INT64, node, value
from onnx import TensorProto, helper

import onnx_compat
from matrix.harness.generators import per_test

RANDOM = per_test(np.random.RandomState(3))
KINDS = {"float32": TensorProto.FLOAT, "int64": INT64, "bool": TensorProto.BOOL}


def floats(*sizes: int) -> np.ndarray:
    return RANDOM.randn(*sizes).astype(np.float32)


class Prepared:
    """A prepared model of one node. A size that is a word is symbolic; an empty input name is an absent input."""

    def __init__(self, operator: str, opset: int, inputs: Dict[str, str], outputs: int = 1, **attributes: Any) -> None:
        results = ["out%d" % k for k in range(outputs)]
        operator_node = node(operator, [name.strip() for name in inputs], results, **attributes)
        self.names = [name for name in inputs if name.strip()]
        infos = []
        for name in self.names:
            kind, *dims = inputs[name].split()
            infos.append(value(name, [int(d) if d.isdigit() else d for d in dims], KINDS[kind]))
        graph = helper.make_graph([operator_node], "g", infos, [value(name) for name in results])
        self.proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        self.runnable = onnx_compat.prepare(self.proto, shim="reference")

    def __call__(self, *arrays: np.ndarray) -> List[np.ndarray]:
        plan = self.runnable.native
        assert plan is not None
        outputs = list(self.runnable.run(dict(zip(self.names, arrays))))
        assert self.runnable.native is plan  # nothing was recorded again for these sizes
        return outputs

    def like_onnxruntime(self, *arrays: np.ndarray) -> None:
        onnxruntime = pytest.importorskip("onnxruntime", minversion="1.31")
        session = onnxruntime.InferenceSession(self.proto.SerializeToString(), providers=["CPUExecutionProvider"])
        close(self(*arrays), session.run(None, dict(zip(self.names, arrays))))


def close(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_attention_with_a_cache_and_few_heads() -> None:
    sizes = {"Q": "float32 b s 32", "K": "float32 b s 16", "V": "float32 b s 24", "attn_mask": "float32 s t"}
    sizes.update(past_key="float32 b 2 p 8", past_value="float32 b 2 p 12")
    prepared = Prepared("Attention", 23, sizes, 3, q_num_heads=4, kv_num_heads=2, is_causal=1, softcap=2.0)
    for batch, steps, past in ((1, 4, 3), (3, 1, 5), (2, 6, 1)):
        arrays = [floats(batch, steps, width) for width in (32, 16, 24)] + [floats(steps, steps + past)]
        prepared.like_onnxruntime(*arrays, floats(batch, 2, past, 8), floats(batch, 2, past, 12))


def test_attention_with_open_heads() -> None:
    sizes = dict.fromkeys("QKV", "float32 b h s 8")
    prepared = Prepared("Attention", 23, {**sizes, "attn_mask": "bool b 1 s s"})
    for batch, heads, steps in ((2, 3, 5), (1, 1, 2)):
        mask = RANDOM.rand(batch, 1, steps, steps) < 0.7
        mask[..., 0] = True
        prepared.like_onnxruntime(*[floats(batch, heads, steps, 8) for _ in "QKV"], mask)


def test_windows_and_lengths_are_masks() -> None:
    """A window and valid lengths give the same result as the mask that describes them."""
    sizes = {"Q": "float32 b 2 s 8", "K": "float32 b 2 t 8", "V": "float32 b 2 t 8"}
    written = Prepared("Attention", 25, {**sizes, "attn_mask": "bool b 1 s t"})
    inputs = {**sizes, " ": "", "  ": "", "   ": "", "nonpad_kv_seqlen": "int64 b"}
    limited = Prepared("Attention", 25, inputs, is_causal=1, left_window_size=2)
    for batch, steps, total, filled in ((2, 3, 7, [7, 4]), (1, 1, 5, [3]), (1, 4, 4, [2])):
        q, k, v = (floats(batch, 2, size, 8) for size in (steps, total, total))
        lengths, keys = np.array(filled), np.arange(total)
        ends = lengths[:, None, None, None]
        query_positions = ends - steps + np.arange(steps)[:, None]
        mask = (keys <= query_positions) & (keys >= query_positions - 2) & (keys < ends)
        (got,) = limited(q, k, v, lengths)
        close([got], written(q, k, v, mask))
        assert not got[~mask.any(-1).repeat(2, 1)].any()


def test_a_mask_that_is_too_short_excludes_the_other_keys() -> None:
    sizes = {"Q": "float32 b 2 s 8", "K": "float32 b 2 t 8", "V": "float32 b 2 t 8", "attn_mask": "float32 s m"}
    prepared = Prepared("Attention", 24, sizes)
    for steps, total, short in ((3, 7, 4), (2, 5, 5)):
        q, k, v, mask = floats(2, 2, steps, 8), floats(2, 2, total, 8), floats(2, 2, total, 8), floats(steps, short)
        close(prepared(q, k, v, mask), prepared(q, k[:, :, :short], v[:, :, :short], mask))


def test_a_mask_of_one_column_broadcasts_at_first() -> None:
    sizes = {"Q": "float32 b 2 s 8", "K": "float32 b 2 t 8", "V": "float32 b 2 t 8"}
    masked = Prepared("Attention", 23, {**sizes, "attn_mask": "float32 s 1"})
    q, k, v = floats(2, 2, 3, 8), floats(2, 2, 7, 8), floats(2, 2, 7, 8)
    close(masked(q, k, v, floats(3, 1)), Prepared("Attention", 23, sizes)(q, k, v))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    sizes = {"X": "float32 b s 32", "cos": "float32 m 4", "sin": "float32 m 4", "positions": "int64 b s"}
    prepared = Prepared("RotaryEmbedding", 23, sizes, num_heads=4, interleaved=interleaved)
    for batch, steps in ((2, 5), (1, 1)):
        positions = RANDOM.randint(0, 9, (batch, steps))
        prepared.like_onnxruntime(floats(batch, steps, 32), floats(9, 4), floats(9, 4), positions)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention_continues_from_its_state(rule: str) -> None:
    sizes = {"q": "float32 b s 16", "k": "float32 b s 8", "v": "float32 b s 6", "past": "float32 b 2 4 3"}
    sizes["decay" if "gated" in rule else " "] = "float32 b s 8"
    if "delta" in rule:
        sizes["beta"] = "float32 b s 1"
    prepared = Prepared("LinearAttention", 27, sizes, 2, q_num_heads=4, kv_num_heads=2, update_rule=rule)
    for batch, steps, cut in ((2, 6, 4), (1, 3, 1)):
        q, k, v = (floats(batch, steps, width) for width in (16, 8, 6))
        gates = [-np.abs(floats(batch, steps, 8))] if "gated" in rule else []
        gates += [np.abs(floats(batch, steps, 1))] if "delta" in rule else []
        state = floats(batch, 2, 4, 3)
        whole, final = prepared(q, k, v, state, *gates)
        first, state = prepared(*(x[:, :cut] for x in (q, k, v)), state, *(x[:, :cut] for x in gates))
        rest, state = prepared(*(x[:, cut:] for x in (q, k, v)), state, *(x[:, cut:] for x in gates))
        close([np.concatenate([first, rest], 1), state], [whole, final])


def test_a_causal_convolution_continues_from_its_state() -> None:
    sizes = {"x": "float32 b 3 s", "w": "float32 3 1 4", "bias": "float32 3", "past": "float32 b 3 3"}
    prepared = Prepared("CausalConvWithState", 27, sizes, 2, activation="silu")
    w, bias = floats(3, 1, 4), floats(3)
    for batch, steps, cut in ((2, 6, 4), (1, 3, 1)):
        x, state = floats(batch, 3, steps), floats(batch, 3, 3)
        whole, final = prepared(x, w, bias, state)
        first, state = prepared(x[..., :cut], w, bias, state)
        rest, state = prepared(x[..., cut:], w, bias, state)
        close([np.concatenate([first, rest], 2), state], [whole, final])


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode: str) -> None:
    sizes = {"cache": "float32 b 2 m 4", "update": "float32 b 2 s 4", "at": "int64 b"}
    prepared = Prepared("TensorScatter", 24, sizes, mode=mode)
    for batch, slots, steps in ((3, 8, 3), (1, 5, 5)):
        first = RANDOM.randint(0, slots if mode == "circular" else slots - steps + 1, batch)
        prepared.like_onnxruntime(floats(batch, 2, slots, 4), floats(batch, 2, steps, 4), first)


def test_heads_of_no_elements_give_the_mean_of_the_values() -> None:
    """The scores are sums of no products, and the scale is 1 / sqrt(0): it multiplies nothing."""
    inputs = {"q": "float32 1 2 3 0", "k": "float32 1 2 4 0", "v": "float32 1 2 4 5"}
    values = floats(1, 2, 4, 5)
    (result,) = Prepared("Attention", 23, inputs)(floats(1, 2, 3, 0), floats(1, 2, 4, 0), values)
    np.testing.assert_allclose(result, np.broadcast_to(values.mean(2, keepdims=True), (1, 2, 3, 5)), rtol=1e-5)

"""TensorFlow Probability with TensorFlow: the cases in which it is used, and equal results with and without it.

A broken installation of it changes nothing.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper
from onnx_compat_tensorflow import probability
from onnx_compat_tensorflow.probability import Interpolation, interpolation, is_installed

import onnx_compat
from onnx_compat.discovery import selection

KEY = "tensorflow-probability"
here = pytest.mark.skipif(not is_installed(), reason="needs TensorFlow Probability, which its own cells have")

TYPES = {np.dtype("float32"): T.FLOAT, np.dtype("float64"): T.DOUBLE}


def grid_sample(image: np.ndarray, grid: np.ndarray, opset: int = 20, known: bool = True, **attributes: Any) -> Any:
    """Return a model with a GridSample node. `known`: whether all sizes are static, or only channels and coordinates."""
    open_image = [None, image.shape[1]] + [None] * (image.ndim - 2)
    open_grid = [None] * (grid.ndim - 1) + [grid.shape[-1]]
    inputs = [
        helper.make_tensor_value_info("x", TYPES[image.dtype], image.shape if known else open_image),
        helper.make_tensor_value_info("grid", TYPES[grid.dtype], grid.shape if known else open_grid),
    ]
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TYPES[image.dtype], None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def picture(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).rand(*shape).astype(np.float32)


def points(*shape: int) -> np.ndarray:
    """Return random sampling points inside and outside of the image, with corners, NaN and infinities among them."""
    sampled = np.random.RandomState(sum(shape)).uniform(-1.4, 1.4, shape).astype(np.float32)
    special = np.array([-1, 1, 0, np.nan, np.inf, -np.inf, 1e30], np.float32)
    flat = sampled.reshape(-1)
    flat[: special.size] = special
    return sampled


def both(shim: str, model: Any, fed: Sequence[np.ndarray]) -> Tuple[np.ndarray, str]:
    """Return (result of the composed meaning, status of the node).

    Assert that the native operator gives the same result.
    """
    fast, composed = (onnx_compat.prepare(model, shim=shim, natives=flag).run(list(fed))[0] for flag in (True, False))
    assert isinstance(composed, np.ndarray)
    assert (fast.dtype, fast.shape) == (composed.dtype, composed.shape)
    np.testing.assert_allclose(fast, composed, rtol=1e-4, atol=1e-5)
    return composed, onnx_compat.support(model, shim)[0].status


@pytest.fixture
def prefer_probability(monkeypatch: Any) -> None:
    """Make the shim use TensorFlow Probability, even if this TensorFlow is as fast without it."""
    import tensorflow_probability as tfp

    function = tfp.math.batch_interp_regular_nd_grid
    monkeypatch.setattr(probability, "_CACHE", [Interpolation(function, "preferred by this test")])


CASES: Dict[str, Tuple[Tuple[int, ...], Tuple[int, ...], Dict[str, Any]]] = {
    "plane": ((2, 4, 5, 7), (2, 6, 3, 2), {}),
    "plane, aligned": ((2, 4, 5, 7), (2, 6, 3, 2), {"align_corners": 1}),
    "plane, older": ((1, 3, 4, 4), (1, 2, 5, 2), {"opset": 16, "mode": "bilinear"}),
    "volume": ((2, 3, 4, 5, 6), (2, 3, 2, 2, 3), {}),
    "volume, aligned": ((1, 3, 4, 5, 6), (1, 3, 2, 2, 3), {"align_corners": 1}),
    "one pixel": ((1, 3, 1, 1), (1, 4, 4, 2), {}),
    "one pixel, aligned": ((1, 3, 1, 1), (1, 4, 4, 2), {"align_corners": 1}),
}


@here
@pytest.mark.usefixtures("prefer_probability")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("case", sorted(CASES))
def test_interpolation_agrees_with_the_composed_meaning(shim_name: str, case: str, known: bool) -> None:
    shape, grid_shape, attributes = CASES[case]
    fed = [picture(*shape), points(*grid_shape)]
    if shape[2:] == (1, 1):  # infinitely far from the edge of no width: 0 * inf
        fed[1] = np.clip(np.nan_to_num(fed[1]), -9, 9)
    sampled, status = both(shim_name, grid_sample(*fed, known=known, **attributes), fed)
    assert status == "native"
    assert np.isfinite(sampled).all()


@here
@pytest.mark.usefixtures("prefer_probability")
def test_nan_pixels_do_not_spread(shim_name: str) -> None:
    image = picture(1, 3, 4, 5)
    image[0, :, 0, 0], image[0, :, 3, 4], image[0, :, 2, 2] = np.nan, np.inf, -np.inf
    fed = [image, points(1, 8, 8, 2)]
    sampled, status = both(shim_name, grid_sample(*fed), fed)
    assert status == "native"
    assert np.isfinite(sampled).any() and not np.isfinite(sampled).all()


@here
@pytest.mark.usefixtures("prefer_probability")
def test_wide_numbers_and_sizes_of_zero(shim_name: str) -> None:
    image, grid = picture(2, 3, 4, 5), points(2, 3, 3, 2)
    wide = [image.astype(np.float64), grid.astype(np.float64)]
    assert both(shim_name, grid_sample(*wide), wide)[1] == "native"
    model = grid_sample(image, grid, known=False)
    for fed in ([image[:0], grid[:0]], [image, grid[:, :0]]):
        assert both(shim_name, model, fed)[0].size == 0


@here
@pytest.mark.usefixtures("prefer_probability")
@pytest.mark.parametrize(
    "attributes", [{"padding_mode": "border"}, {"padding_mode": "reflection"}, {"mode": "nearest"}, {"mode": "cubic"}]
)
def test_slower_cases_use_the_composed_meaning(shim_name: str, attributes: Dict[str, Any]) -> None:
    fed = [picture(1, 4, 5, 7), points(1, 6, 3, 2)]
    fed[1] = np.clip(np.nan_to_num(fed[1]), -1, 1)
    assert both(shim_name, grid_sample(*fed, **attributes), fed)[1] == "composed"


@here
@pytest.mark.usefixtures("prefer_probability")
def test_few_channels_and_another_dtype_of_the_grid_too(shim_name: str) -> None:
    image, grid = picture(1, 3, 5, 7), np.clip(np.nan_to_num(points(1, 6, 3, 2)), -1, 1)
    for fed in ([image[:, :2], grid], [image, grid.astype(np.float64)]):
        assert both(shim_name, grid_sample(*fed), fed)[1] == "composed"


@here
@pytest.mark.usefixtures("prefer_probability")
def test_a_saved_file_does_not_need_tensorflow_probability(shim_name: str, tmp_path: Path) -> None:
    fed = [picture(2, 4, 5, 7), points(2, 6, 3, 2)]
    model = grid_sample(*fed)
    onnx_compat.convert(model, str(tmp_path / "saved"), to="saved_model", shim=shim_name)
    code = (
        "import sys, numpy as np; sys.modules['tensorflow_probability'] = None; import tensorflow as tf\n"
        "with tf.Graph().as_default(), tf.compat.v1.Session() as session:\n"
        "    loaded = tf.compat.v1.saved_model.load(session, ['serve'], sys.argv[1])\n"
        "    of = loaded.signature_def['serving_default']\n"
        "    feeds = {of.inputs[key].name: np.load(sys.argv[2])[key] for key in of.inputs}\n"
        "    (output,) = of.outputs.values()\n"
        "    np.save(sys.argv[3], session.run(output.name, feeds))\n"
    )
    np.savez(tmp_path / "fed.npz", x=fed[0], grid=fed[1])
    paths = [str(tmp_path / name) for name in ("saved", "fed.npz", "found.npy")]
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, *paths], check=True)
    np.testing.assert_allclose(np.load(paths[2]), both(shim_name, model, fed)[0], rtol=1e-4, atol=1e-5)


def test_tensorflow_probability_is_used_where_it_is_enabled(shim_name: str) -> None:
    fed = [picture(1, 16, 8, 8), points(1, 8, 8, 2)]
    _, status = both(shim_name, grid_sample(*fed), fed)
    reason = selection.find(shim_name).probe().features[KEY]
    assert reason == interpolation().reason
    assert (status == "native") == reason.endswith(", for GridSample")
    assert is_installed() != (reason == "not installed")
    assert "fails" not in reason and "wrongly" not in reason


# -- random numbers -----------------------------------------------------------------------------------------------------
SEED = 1.5


def draw(shim: str, operator: str, inputs: Sequence[np.ndarray] = (), **attributes: Any) -> np.ndarray:
    names = ["x%d" % k for k in range(len(inputs))]
    declared = [helper.make_tensor_value_info(n, T.FLOAT, x.shape) for n, x in zip(names, inputs)]
    node = helper.make_node(operator, names, ["y"], seed=SEED, **attributes)
    graph = helper.make_graph([node], "g", declared, [helper.make_tensor_value_info("y", T.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=8)
    sampled = onnx_compat.prepare(model, shim=shim).run(list(inputs))[0]
    assert isinstance(sampled, np.ndarray)
    return sampled


def test_a_seed_draws_the_same_in_every_cell(shim_name: str) -> None:
    """The expected numbers were computed on TensorFlow 1.15. Every TensorFlow, with or without Probability, draws them."""
    uniform = draw(shim_name, "RandomUniform", shape=[4])
    normal = draw(shim_name, "RandomNormal", shape=[4])
    np.testing.assert_array_equal(
        uniform,
        np.array([0.9057396650314331, 0.11292707920074463, 0.40696775913238525, 0.6016571521759033], np.float32),
    )
    np.testing.assert_allclose(
        normal,
        np.array([0.28989794850349426, 0.3375883400440216, -0.7994201183319092, -1.076554775238037], np.float32),
        rtol=1e-6,
    )


@here
def test_a_seed_draws_what_tensorflow_probability_draws_from_it(shim_name: str) -> None:
    """The bits of the ONNX seed are the seed. Older releases take no such seed, and draw new numbers at each run."""
    import tensorflow as tf
    import tensorflow_probability as tfp

    chances = np.linspace(0, 1, 1000, dtype=np.float32)
    ours = [
        draw(shim_name, "RandomUniform", shape=[1000]),
        draw(shim_name, "RandomNormal", shape=[1000], mean=3.0, scale=2.0),
        draw(shim_name, "Bernoulli", [chances]),
    ]
    if not hasattr(getattr(tfp, "random", None), "sanitize_seed"):
        _draws_anew(tf, tfp)
        return
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        seed = tf.constant(np.array([SEED], np.float64).view(np.int32))
        of = tfp.distributions
        theirs = session.run(
            [
                of.Uniform().sample([1000], seed=seed),
                of.Normal(3.0, 2.0).sample([1000], seed=seed),
                of.Bernoulli(probs=chances, dtype=tf.float32).sample(seed=seed),
            ]
        )
    for actual, expected in zip(ours, theirs):
        np.testing.assert_array_equal(actual, expected)


def _draws_anew(tf: Any, tfp: Any) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sample = tfp.distributions.Uniform().sample([1000], seed=1)
        first, again = session.run(sample), session.run(sample)
    assert (first != again).any()


# -- broken -------------------------------------------------------------------------------------------------------------
BROKEN = {
    "raise ImportError('this needs TensorFlow 99')": "not used, it fails: ImportError: this needs TensorFlow 99",
    "raise SyntaxError": "not used, it fails: SyntaxError: ",
    "import of_no_such_name": "not used, it fails: ModuleNotFoundError: No module named 'of_no_such_name'",
    "math = None": "not used, it fails: AttributeError: ",
    "class math:\n    batch_interp_regular_nd_grid = staticmethod(lambda x, *_, **__: x)": "interpolates wrongly",
    "class math:\n    def batch_interp_regular_nd_grid(self): pass": "interpolates wrongly",
}


@pytest.mark.parametrize("content", sorted(BROKEN))
def test_a_broken_tensorflow_probability_is_ignored_and_reported(
    shim_name: str, content: str, tmp_path: Path, monkeypatch: Any
) -> None:
    fed = [picture(1, 16, 8, 8), points(1, 8, 8, 2)]
    onnx_compat.prepare(grid_sample(*fed), shim=shim_name)  # what works by itself is imported before
    (tmp_path / "tensorflow_probability.py").write_text(content)
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorflow_probability"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    monkeypatch.setattr(probability, "_CACHE", [])
    try:
        assert both(shim_name, grid_sample(*fed), fed)[1] == "composed"
        assert BROKEN[content] in selection.find(shim_name).probe().features[KEY]
    finally:
        sys.modules.pop("tensorflow_probability", None)


def test_probing_and_other_operators_do_not_import_it(shim_name: str) -> None:
    code: List[str] = [
        "import sys, numpy as np, onnx_compat",
        "from onnx import TensorProto as T, helper",
        "value = helper.make_tensor_value_info('x', T.FLOAT, [2]), helper.make_tensor_value_info('y', T.FLOAT, [2])",
        "graph = helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'g', [value[0]], [value[1]])",
        "model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 14)], ir_version=7)",
        "assert onnx_compat.run(model, [np.ones(2, np.float32)], shim=%r)[0].sum() == 2" % shim_name,
        "assert any(info.name == %r and info.available for info in onnx_compat.shims())" % shim_name,
        "assert 'tensorflow' in sys.modules and 'tensorflow_probability' not in sys.modules",
    ]
    environment = dict(os.environ, PYTHONWARNINGS="ignore")
    subprocess.run([sys.executable, "-c", "\n".join(code)], env=environment, check=True)

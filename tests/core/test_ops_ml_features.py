"""Feature, label and map operators of ai.onnx.ml, compared with onnxruntime or with expected values."""

import numpy as np
import onnx.defs
import pytest
from ml import ML, agree, map_type, ours, proto
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.errors import InputError
from onnx_compat.ops import all_meanings

FLOAT, DOUBLE, INT64, STRING = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING
NAN = float("nan")


def words(*texts):
    return np.asarray(texts, object)


def floats(*rows):
    return np.asarray(rows, np.float32)


def run(operator, version, inputs, outputs, types=None, **attributes):
    (result,) = ours(
        proto(operator, version, types or inputs, outputs, attributes), {"x%d" % k: x for k, x in enumerate(inputs)}
    )
    return result


def test_every_version_has_its_meaning():
    theirs = {(s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if s.domain == ML}
    mine = {(item.name, item.since) for item in all_meanings() if item.domain == ML}
    assert theirs <= mine
    assert len(mine) == 25


# -- features ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
def test_selected_features(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for indices in (np.array([[3, 0, 3]]), np.array([1])):
        agree("ArrayFeatureExtractor", 1, [x, indices], [FLOAT])


def test_binarizer():
    agree("Binarizer", 1, [floats([1, 2, 0.5], [-1, 1.5, 0])], [FLOAT], threshold=1.0)
    assert run("Binarizer", 1, [np.array([[-2, -1, 1, 2]])], [INT64], threshold=-1.5).tolist() == [[0, 1, 1, 1]]
    assert run("Binarizer", 1, [np.array([[-2, 3]])], [INT64], threshold=1e30).tolist() == [[0, 0]]


def test_vectorized_features():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    agree("FeatureVectorizer", 1, [x, x], [FLOAT], inputdimensions=[2, 5])
    agree("FeatureVectorizer", 1, [y, x], [FLOAT], inputdimensions=[4, 3])
    agree("FeatureVectorizer", 1, [x[0], x[0]], [FLOAT], inputdimensions=[3, 1])
    agree("FeatureVectorizer", 1, [x.astype(np.int64)] * 2, [FLOAT], inputdimensions=[3, 3])


def test_imputer():
    x = floats([1, NAN, 0], [NAN, 2, 0])
    agree("Imputer", 1, [x], [FLOAT], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=NAN)
    agree("Imputer", 1, [x], [FLOAT], imputed_value_floats=[7.0], replaced_value_float=NAN)
    agree("Imputer", 1, [x], [FLOAT], imputed_value_floats=[7.0, 8.0])
    agree("Imputer", 1, [np.array([[4, 0], [0, 4]])], [INT64], imputed_value_int64s=[7, 8], replaced_value_int64=4)
    double = x.astype(np.float64)
    result = run("Imputer", 1, [double], [DOUBLE], imputed_value_floats=[5.0], replaced_value_float=NAN)
    assert result.tolist() == [[1, 5, 0], [5, 2, 0]]


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    x = floats([1, -2, 4], [0, 0, 0], [-1, -4, -2], [0, -1, 0], [3, 3, 3])
    agree("Normalizer", 1, [x], [FLOAT], norm=norm)
    agree("Normalizer", 1, [x[0]], [FLOAT], norm=norm)
    for dtype in (np.float64, np.int64, np.int32):
        agree("Normalizer", 1, [x.astype(dtype)], [FLOAT], norm=norm)


def test_one_hot():
    agree("OneHotEncoder", 1, [floats(1.7, 5, 3, -0.5)], [FLOAT], cats_int64s=[5, 1, 0, 1])
    agree("OneHotEncoder", 1, [np.array([[1, 5], [3, 1]])], [FLOAT], cats_int64s=[5, 1])
    agree("OneHotEncoder", 1, [np.array([["a", "b"], ["c", "b"]], object)], [FLOAT], cats_strings=["b", "c"])
    strict = run("OneHotEncoder", 1, [np.array([5, 3])], [FLOAT], cats_int64s=[5, 1], zeros=0)
    assert strict[0].tolist() == [1, 0]
    assert np.isnan(strict[1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_scaler(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    agree("Scaler", 1, [x], [FLOAT], offset=[1.0, 2.0, 3.0], scale=[0.5, 1.0, 2.0])
    agree("Scaler", 1, [x], [FLOAT], offset=[1.5], scale=[0.5])


# -- labels ------------------------------------------------------------------------------------------------------------
def test_mapped_categories():
    how = {"cats_strings": ["a", "b", "a"], "cats_int64s": [4, 5, 4]}
    agree("CategoryMapper", 1, [words("a", "q", "b")], [INT64], **how)
    agree("CategoryMapper", 1, [np.array([[4, 5], [6, 4]])], [STRING], default_string="?", **how)


def test_encoded_labels_version_1():
    agree("LabelEncoder", 1, [words("a", "b", "q")], [INT64], classes_strings=["b", "a", "b"], default_int64=-7)
    agree("LabelEncoder", 1, [np.array([[0, 1], [-1, 9]])], [STRING], classes_strings=["b", "a", "b"])


KEYS = {"strings": ["a", "b", "c"], "int64s": [3, -1, 7], "floats": [0.0, 1.5, -2.0]}
DTYPES = {"strings": STRING, "int64s": INT64, "floats": FLOAT}
INPUTS = {"strings": words("b", "q", "a"), "int64s": np.array([7, 0, 3]), "floats": floats(-0.0, 7.0, 1.5)}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("source", ["strings", "int64s", "floats"])
@pytest.mark.parametrize("target", ["strings", "int64s", "floats"])
def test_encoded_labels(version, source, target):
    how = {"keys_" + source: KEYS[source], "values_" + target: KEYS[target]}
    agree("LabelEncoder", version, [INPUTS[source]], [DTYPES[target]], **how)
    agree("LabelEncoder", version, [INPUTS[source].reshape(3, 1)], [DTYPES[target]], **how)


def test_nan_is_a_label_since_version_4():
    x = floats(1.0, NAN, 5.0)
    how = {"keys_floats": [NAN, 1.0], "values_strings": ["n", "one"]}
    assert agree("LabelEncoder", 2, [x], [STRING], **how)[0].tolist() == ["one", "_Unused", "_Unused"]
    assert agree("LabelEncoder", 4, [x], [STRING], **how)[0].tolist() == ["one", "n", "_Unused"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_many_labels(dtype):
    random = np.random.RandomState(0)
    keys = random.permutation(10000).astype(dtype) * 3 - 5000
    x = random.randint(-6000, 30000, (50, 7)).astype(dtype)
    if dtype != np.int64:
        keys[5], x[3, 3] = NAN, NAN
    how = {"keys_tensor": numpy_helper.from_array(keys), "values_tensor": numpy_helper.from_array(keys[::-1].copy())}
    how["default_tensor"] = numpy_helper.from_array(np.array([-1], dtype))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if dtype == np.int64:
        agree("LabelEncoder", 4, [x], [kind], **how)
    else:
        result = run("LabelEncoder", 4, [x], [kind], **how)
        table = {key: value for key, value in zip(keys.tolist(), keys[::-1].tolist()) if not np.isnan(key)}
        wanted = [table.get(item, -1) for item in x.reshape(-1).tolist()]
        wanted[24] = keys[::-1][5]
        assert result.reshape(-1).tolist() == wanted


def test_many_names():
    names = ["word%d" % k for k in range(10000)]
    x = words(*["word%d" % k for k in range(0, 20000, 997)])
    agree("LabelEncoder", 4, [x], [INT64], keys_strings=names, values_int64s=list(range(10000)))


# -- maps --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("cast_to", "kind"), [("TO_FLOAT", FLOAT), ("TO_INT64", INT64), ("TO_STRING", STRING)])
@pytest.mark.parametrize("map_form", ["DENSE", "SPARSE"])
def test_maps_to_rows(cast_to, kind, map_form):
    how = {"cast_to": cast_to, "map_form": map_form, "max_map": 5}
    for value in ({3: 1.5, 1: -2.75}, {0: 1e10, 4: 0.1, 9: 3.0}):
        agree("CastMap", 1, [value], [kind], [map_type(INT64, FLOAT)], **how)


def test_maps_of_text_to_rows():
    def cast(cast_to, kind, **how):
        types = [map_type(INT64, STRING)]
        return run("CastMap", 1, [{3: "1.5", 1: "-2"}], [kind], types, cast_to=cast_to, **how).tolist()

    assert cast("TO_FLOAT", FLOAT) == [[-2.0, 1.5]]
    assert cast("TO_INT64", INT64, map_form="SPARSE", max_map=4) == [[0, -2, 0, 1]]
    assert cast("TO_STRING", STRING) == [["-2", "1.5"]]


def test_vectorized_dicts():
    agree(
        "DictVectorizer",
        1,
        [{"a": 1.0, "z": 3.0, "u": 5.0}],
        [FLOAT],
        [map_type(STRING, FLOAT)],
        string_vocabulary=list("zqa"),
    )
    agree("DictVectorizer", 1, [{1: 1.0, 8: 3.0}], [FLOAT], [map_type(INT64, FLOAT)], int64_vocabulary=[8, 2, 1, 8])
    result = run("DictVectorizer", 1, [{1: "u", 5: "v"}], [STRING], [map_type(INT64, STRING)], int64_vocabulary=[5, 7])
    assert result.tolist() == [["v", ""]]
    result = run("DictVectorizer", 1, [{}], [DOUBLE], [map_type(STRING, DOUBLE)], string_vocabulary=["a", "b"])
    assert result.tolist() == [[0.0, 0.0]]


def test_a_map_of_any_items_is_recorded_once():
    model = proto("DictVectorizer", 1, [map_type(INT64, FLOAT)], [FLOAT], {"int64_vocabulary": list(range(0, 300, 3))})
    runnable = onnx_compat.prepare(model)
    for size in (1, 4, 9):
        (result,) = runnable.run({"x0": {3 * k: k + 1.0 for k in range(size)}})
        assert result.sum() == size * (size + 1) / 2
    assert len(runnable._plans) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [([1], "give a dict"), ({"a": 1.0}, "keys"), ({True: 1.0}, "keys"), ({1: "a"}, "values"), ({1.5: 1.0}, "keys")],
)
def test_invalid_maps_are_refused(value, text):
    with pytest.raises(InputError, match=text):
        run("DictVectorizer", 1, [value], [FLOAT], [map_type(INT64, FLOAT)], int64_vocabulary=[1])


def sequence_of(kind):
    return helper.make_sequence_type_proto(kind)


@pytest.mark.parametrize(("name", "labels", "key"), [("strings", ["b", "a"], STRING), ("int64s", [9, -4], INT64)])
def test_scores_to_dicts(name, labels, key):
    how = {"classlabels_" + name: labels}
    for x in (floats([1, 2], [3, 4], [5, 6]), floats(7, 8), np.zeros((0, 2), np.float32)):
        agree("ZipMap", 1, [x], [sequence_of(map_type(key, FLOAT))], **how)
    agree("ZipMap", 1, [floats([1, 2])], [sequence_of(map_type(INT64, FLOAT))], classlabels_int64s=[5, 5])


def test_dicts_of_a_batch_of_any_size():
    model = proto(
        "ZipMap", 1, [floats([1, 2])], [sequence_of(map_type(STRING, FLOAT))], {"classlabels_strings": ["q", "p"]}
    )
    runnable = onnx_compat.prepare(model)
    for count in (1, 3):
        x = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
        assert runnable.run({"x0": x})[0] == [{"p": row[1], "q": row[0]} for row in x.tolist()]

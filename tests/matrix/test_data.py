"""matrix.toml: its entries are consistent, and a wrong entry is an error that names it."""

import pytest

from matrix.data import CORE_SHIMS, ROOT, MatrixError, load

MATRIX = load()
TEXT = (ROOT / "matrix" / "matrix.toml").read_text(encoding="utf-8")


def load_changed(folder, old, new):
    assert old in TEXT
    path = folder / "matrix.toml"
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    return load(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('tensorflow==1.15.5"', 'tensorflow>=1.15.5"', "is not an exact pin"),
        ('tensorflow==1.15.5"', 'tensorflow==2.0.0"', "the distributions require .*, the cell pins"),
        ('below = "3.9"', 'below = "3.7"', "refuses Python 3.7"),
        ('[cells."tf1-1.15.5-py37"]', '[cells."tf1-1.15.5"]', "the name must be"),
        ('shim = "tf1"', 'shim = "tf3"', "no distribution for the shim 'tf3'"),
        ('tier = "gate"', 'tier = "daily"', "tier 'daily'"),
        ('runner = "gpu"', 'runner = "tpu"', "runner 'tpu'"),
        ('gpu = ["self-hosted"', 'tpu = ["self-hosted"', "runner gpu: .* does not name its machines"),
        ('runner = "gpu"', 'runner = "gpu"\nretries = 3', "retries"),
        (
            '"tf1-1.15.5-py37" =',
            '"tf1-1.14.0-py37" =',
            r"tf1-1.14.0-py37: \[gate.seconds\](.|\n)*tf1-1.15.5-py37: \[gate",
        ),
    ],
)
def test_a_wrong_entry_is_refused(tmp_path, old, new, message):
    with pytest.raises(MatrixError, match=message):
        load_changed(tmp_path, old, new)


def test_every_shim_has_one_gate_cell():
    shims = [*CORE_SHIMS, *(key for key in MATRIX.distributions if key not in ("core", "tensorflow"))]
    assert sorted(cell.shim for cell in MATRIX.cells.values() if cell.tier == "gate") == sorted(shims)


def test_requires_python_starts_where_a_cell_proves_it():
    requires = {key: MATRIX.requires_python(distribution) for key, distribution in MATRIX.distributions.items()}
    assert requires["core"] == ">=3.7"
    assert requires["tf1"] == ">=3.7,<3.9"
    assert requires["tensorflow"] == min(requires["tf1"].partition(",")[0], requires["tf2"])


def test_our_own_distributions_are_in_lock_step():
    assert MATRIX.pin_own("onnx-compat-tf1[tensorflow]") == "onnx-compat-tf1[tensorflow]==" + MATRIX.version
    assert MATRIX.pin_own("numpy>=1.18") == "numpy>=1.18"


def test_a_shim_brings_its_dependencies():
    assert {distribution.key for distribution in MATRIX.closure("tf1")} == {"tf1", "tensorflow", "core"}
    assert {distribution.key for distribution in MATRIX.closure("reference")} == {"core"}

"""The table of the README agrees with matrix.toml and with the stored results."""

from matrix.data import load
from matrix.render import readme

MATRIX = load()


def rows(results):
    lines = readme.table(MATRIX, results)[2:]
    return {fields[0]: fields[1:] for fields in ([field.strip() for field in line[1:-1].split("|")] for line in lines)}


def test_every_cell_is_in_one_row():
    assert sum(int(fields[3]) for fields in rows({}).values()) == len(MATRIX.cells)


def test_a_row_has_the_versions_pythons_and_extras_of_its_cells():
    table = rows({})
    cells = [cell for cell in MATRIX.cells.values() if cell.shim == "tf2" and cell.branch]
    versions, _, extras, _, _ = table["TensorFlow 2"]
    assert versions == f"{cells[0].pins[0].partition('==')[2]} to {cells[-1].pins[0].partition('==')[2]}"
    assert extras == f"`[tf2]`, `[{cells[0].branch}]` to `[{cells[-1].branch}]`"
    assert table["TensorFlow 1"][2].startswith("`[tf1]`, `[tf1-14]`"), "also where an extra is a branch"
    assert table["Keras 3 on JAX"][2].startswith("`[keras-jax]`")


def test_the_share_counts_cases_that_ran_and_are_recorded_right():
    cell = next(cell for cell in MATRIX.cells.values() if cell.shim == "tf1")
    assert rows({})["TensorFlow 1"][4] == "-"
    assert rows({cell.id: {"opsets": {"9": [1998, 1, 0, 0, 5], "10": [0, 0, 1, 0, 0]}}})["TensorFlow 1"][4] == "99.9 %"
    assert rows({cell.id: {"opsets": {"9": [9999, 1, 0, 0, 0]}}})["TensorFlow 1"][4] == "99.9 %", "100 % is all of them"
    assert rows({cell.id: {"state": "no-gpu"}})["TensorFlow 1"][4] == "-"

"""Convert a network to another opset, and compare its outputs in onnxruntime: the tasks of the row `networks`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from benchmarks.child.real_inputs import generate_inputs
from matrix.retarget.outcomes import REFUSED, RIGHT, WRONG
from matrix.simplified.measure import compare_outputs, count_nodes, load_session
from matrix.suites.cache import Case

__all__ = ["examine"]


def examine(path: str, opset: int, case: List[Any], real: Mapping[str, Any]) -> Tuple[str, str, List[int]]:
    """Convert a network to another opset, and compare the outputs of the source and of the result in onnxruntime.

    - path: the path of the source.
    - case: the row of the index that has the inputs; [] for a trained network of a package.
    - real: `shapes`, `values`, `fed` and `ranges` of that network, from which its inputs are generated; else {}.

    Return (outcome, detail, [nodes of the source, nodes of the result, composed nodes]). The outcome is RIGHT, WRONG,
    or REFUSED; the list is empty if the conversion is refused.
    """
    import onnx_compat
    from onnx_compat.retarget.conversion import plan

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.onnx"
        try:
            composed = plan(path, opset).counts["composed"]
            onnx_compat.convert(path, target, opset=opset, verify=False)
        except onnx_compat.OnnxCompatError as error:
            return REFUSED, error.reason[:300], []
        nodes = [count_nodes(Path(path)), count_nodes(target), composed]
        try:
            feeds = list(
                feeds_of_case(Case(*case))
                if case
                else [generate_inputs(path, real["shapes"], real["values"], real["fed"], real["ranges"])]
            )
            problem = compare_outputs(load_session(Path(path), optimised=False), load_session(target), feeds)
        except Exception as error:  # noqa: BLE001 - onnxruntime has no common class of errors
            problem = str(error)[:300]
    return WRONG if problem else RIGHT, problem, nodes


def feeds_of_case(case: Case) -> Iterator[Dict[str, Any]]:
    """Yield the recorded inputs of each data set of a case, by name."""
    for data in case.data_sets():
        yield data.inputs

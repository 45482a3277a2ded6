"""Run an operator of com.microsoft in onnxruntime and in the reference, with known and with symbolic sizes, and compare."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest
from building import model, node, value
from onnx import ValueInfoProto, helper

import onnx_compat

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.23")
MICROSOFT = "com.microsoft"


def session(proto: Any) -> Any:
    """Return a session of onnxruntime without optimisations, so that the kernel of the operator itself runs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # threads share a batch out, and each would quantize its part by itself
    content = proto if isinstance(proto, (bytes, str)) else proto.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def build_model(
    operator: str,
    inputs: Sequence[Any],
    outputs: int = 1,
    known: Sequence[int] = (),
    unknown: bool = False,
    domain: str = MICROSOFT,
    ai_onnx: int = 13,
    types: Optional[Dict[int, int]] = None,
    **attributes: Any,
) -> Tuple[Any, Dict[str, np.ndarray]]:
    """Return (model of one node, its inputs by name). `known`: the positions of the inputs that are initializers.

    `types`: position -> element type, for inputs of a type that numpy lacks.
    """
    inputs = [array if array is None else np.asarray(array) for array in inputs]
    names = ["" if array is None else "x%d" % k for k, array in enumerate(inputs)]
    results = ["y%d" % k for k in range(outputs)]
    constants, ports, feed = {}, [], {}
    for k, (name, array) in enumerate(zip(names, inputs)):
        if array is None:
            continue
        if k in known:
            constants[name] = array
            continue
        shape = ["%s_%d" % (name, axis) for axis in range(array.ndim)] if unknown else array.shape
        ports.append(value(name, shape, helper.np_dtype_to_tensor_dtype(array.dtype)))
        feed[name] = array
    nodes = [node(operator, names, results, domain=domain, **attributes)]
    extra = [helper.make_opsetid(MICROSOFT, 1)]
    proto = model(nodes, ports, [ValueInfoProto(name=name) for name in results], constants, ai_onnx, extra)
    for k, dtype in (types or {}).items():
        (tensor,) = [initializer for initializer in proto.graph.initializer if initializer.name == names[k]]
        tensor.CopyFrom(helper.make_tensor(tensor.name, dtype, inputs[k].shape, inputs[k].reshape(-1).tolist()))
    return proto, feed


def both(proto: Any, feed: Dict[str, np.ndarray], shim: str = "reference") -> List[Tuple[np.ndarray, np.ndarray]]:
    """Run a model. Return (outputs of onnx_compat, outputs of onnxruntime)."""
    theirs = session(proto).run(None, feed)
    runnable = onnx_compat.prepare(proto, shim=shim, fallback=False)
    ours = runnable.run(feed)
    return [(np.asarray(ours[k]), theirs[k]) for k in range(len(theirs))]


def agree(proto: Any, feed: Dict[str, np.ndarray], rtol: float = 1e-5, atol: float = 1e-5, steps: int = 0) -> None:
    """Assert that the outputs agree with those of onnxruntime: floats within the tolerances, integers within `steps`.

    Dtypes and shapes must be equal.
    """
    for mine, theirs in both(proto, feed):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        if mine.dtype.kind in "iu":
            distance = np.abs(mine.astype(np.int64) - theirs.astype(np.int64))
            assert distance.size == 0 or distance.max() <= steps, (mine, theirs)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)


def check(
    operator: str, inputs: Sequence[Any], rtol: float = 1e-5, atol: float = 1e-5, steps: int = 0, **how: Any
) -> None:
    """Build a model of one operator with static sizes and one with symbolic sizes, and assert that both agree with
    onnxruntime.
    """
    for unknown in (False, True):
        agree(*build_model(operator, inputs, unknown=unknown, **how), rtol=rtol, atol=atol, steps=steps)

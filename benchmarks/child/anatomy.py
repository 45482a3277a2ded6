"""Anatomy of a .tflite file: its operators, its size, and the operators that the default delegate (XNNPACK) runs."""

import os
from collections import Counter
from typing import Any, Dict, List, Set


def anatomy(path: str) -> Dict[str, Any]:
    """Return the properties of a .tflite file as a dict.

    - `operators`: type of operator -> count, in all subgraphs
    - `turns`: the number of TRANSPOSEs that read an input or write an output of the file
    - `bytes`: the size of the file
    - `nodes`, `delegated`, `pieces`, `left`: see `_share`
    """
    from onnx_compat_tflite import flatbuffer as fb

    model = fb.read(path)
    operators = Counter(operator.builtin for graph in model.subgraphs for operator in graph.operators)
    return {
        "operators": dict(operators),
        "turns": _turns(model.subgraphs[0]),
        "bytes": os.path.getsize(path),
        **_share(path),
    }


def _turns(graph: Any) -> int:
    """Return the number of TRANSPOSEs that read an input or write an output of the graph."""
    ends = set(graph.inputs) | set(graph.outputs)
    return sum(
        operator.builtin == "TRANSPOSE" and (operator.inputs[0] in ends or operator.outputs[0] in ends)
        for operator in graph.operators
    )


def _share(path: str) -> Dict[str, Any]:
    """Return how the interpreter divides the main graph between XNNPACK and its own kernels.

    - `nodes`: the number of nodes
    - `delegated`: the number of nodes that XNNPACK runs
    - `pieces`: the number of runs of nodes that XNNPACK takes
    - `left`: type -> number of the nodes that the interpreter runs

    The interpreter lists a delegate after the nodes that it replaces. These nodes are found backwards from its outputs.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path)
    interpreter.allocate_tensors()
    nodes = interpreter._get_ops_details()
    pieces = [node for node in nodes if node["op_name"] == "DELEGATE"]
    rest = [node for node in nodes if node["op_name"] != "DELEGATE"]
    writers = {int(tensor_index): node for node in rest for tensor_index in node["outputs"]}
    delegated: Set[int] = set()
    for piece in pieces:
        delegate_inputs, waiting = (
            set(map(int, piece["inputs"])),
            [int(tensor_index) for tensor_index in piece["outputs"]],
        )
        seen: Set[int] = set(delegate_inputs)
        while waiting:
            tensor_index = waiting.pop()
            if tensor_index in seen or tensor_index not in writers:
                continue
            seen.add(tensor_index)
            delegated.add(writers[tensor_index]["index"])
            waiting.extend(int(source) for source in writers[tensor_index]["inputs"])
    left: List[str] = [node["op_name"] for node in rest if node["index"] not in delegated]
    return {"nodes": len(rest), "delegated": len(delegated), "pieces": len(pieces), "left": dict(Counter(left))}

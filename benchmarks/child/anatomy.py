"""What a .tflite file is made of, and how much of it the default delegate takes."""

import os
from collections import Counter
from typing import Any, Dict, List, Set


def anatomy(path: str) -> Dict[str, Any]:
    """Operators by type (all subgraphs), of these the TRANSPOSEs that only keep the layout of an input or an output; the
    bytes; and the nodes of the main graph, those that XNNPACK takes, in how many pieces, and what it leaves.
    """
    from onnx_compat_tflite import flatbuffer as fb

    model = fb.read(path)
    operators = Counter(one.builtin for graph in model.subgraphs for one in graph.operators)
    return {
        "operators": dict(operators),
        "turns": _turns(model.subgraphs[0]),
        "bytes": os.path.getsize(path),
        **_share(path),
    }


def _turns(graph: Any) -> int:
    """How many TRANSPOSEs stand at an input or an output of rank 3 or more."""
    ends = set(graph.inputs) | set(graph.outputs)
    return sum(
        one.builtin == "TRANSPOSE" and (one.inputs[0] in ends or one.outputs[0] in ends) for one in graph.operators
    )


def _share(path: str) -> Dict[str, Any]:
    """The delegate stands behind the nodes that it replaces: they are what its outputs are made of."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path)
    interpreter.allocate_tensors()
    nodes = interpreter._get_ops_details()
    pieces = [node for node in nodes if node["op_name"] == "DELEGATE"]
    rest = [node for node in nodes if node["op_name"] != "DELEGATE"]
    writers = {int(place): node for node in rest for place in node["outputs"]}
    taken: Set[int] = set()
    for piece in pieces:
        given, waiting = set(map(int, piece["inputs"])), [int(place) for place in piece["outputs"]]
        seen: Set[int] = set(given)
        while waiting:
            place = waiting.pop()
            if place in seen or place not in writers:
                continue
            seen.add(place)
            taken.add(writers[place]["index"])
            waiting.extend(int(source) for source in writers[place]["inputs"])
    left: List[str] = [node["op_name"] for node in rest if node["index"] not in taken]
    return {"nodes": len(rest), "delegated": len(taken), "pieces": len(pieces), "left": dict(Counter(left))}

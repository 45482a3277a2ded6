"""Conversion of a PyTorch network of the zoo by litert-torch. The zoo is the only part of the repository that a child reads."""

import sys
import time
from pathlib import Path
from typing import Dict


def convert_torch(name: str, full: bool, path: str) -> Dict[str, float]:
    """Convert the module, with the weights, that the zoo exports as ONNX. Return the seconds, without its construction."""
    import litert_torch  # type: ignore[import-not-found]  # in the environment of the peer only

    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.append(root)
    from matrix.zoo.catalog import catalog
    from matrix.zoo.condition import build_conditioned

    model = next(entry for entry in catalog() if entry.name == name and entry.full == full)
    sizes = {size: max(8, values[0]) if size == "batch" else values[0] for size, values in model.sizes.items()}
    network = build_conditioned(name, model.build, model.sample(sizes, "calibration"))
    sample = tuple(model.sample(model.fixed_sizes()).values())
    start = time.perf_counter()
    litert_torch.convert(network, sample).export(path)
    return {"seconds": time.perf_counter() - start}

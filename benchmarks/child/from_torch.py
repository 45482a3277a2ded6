"""Convert a PyTorch network of the zoo with litert-torch.

The module imports matrix.zoo from the source tree; no other module of this folder imports the source tree.
"""

import sys
import time
from pathlib import Path
from typing import Dict


def convert_torch(name: str, full: bool, path: str) -> Dict[str, float]:
    """Convert a network of the zoo, with the weights of its ONNX export, to a .tflite file at `path`.

    Return {"seconds": duration}, without the construction of the network. `full`: the large variant.
    """
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

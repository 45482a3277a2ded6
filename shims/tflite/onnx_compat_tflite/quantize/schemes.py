"""The quantisation schemes of .tflite files, and the metadata entry that names the scheme of a file."""

from typing import Optional

from onnx_compat.shim import Scheme
from onnx_compat_tflite import flatbuffer as fb

__all__ = ["KEY", "MODELS_OWN", "PRODUCTS", "SCHEMES", "scheme_of"]

#: The kind of the scheme whose products are computed with int4 weights (see `products`).
PRODUCTS = "dynamic-int4"

SCHEMES = (
    Scheme("float16", "weights as float16", fidelity=30),
    Scheme("weights-int8", "weights as int8, computed with as float32", fidelity=10, blocks=True),
    Scheme("weights-int4", "weights as int4, computed with as float32", fidelity=5, blocks=True),
    Scheme(PRODUCTS, "weights of products as int4, and products of integers", fidelity=5, blocks=True),
    Scheme("dynamic", "weights as int8, and products of integers; other values are float32", fidelity=10),
    Scheme("int8", "weights and values as int8", fidelity=10, calibrated=True, port_types=("int8", "uint8")),
    Scheme("int16x8", "weights as int8, values as int16", fidelity=10, calibrated=True, port_types=("int16",)),
)
#: The scheme of a converted model that is quantised in ONNX; users do not request it. A result may be off by one scale.
MODELS_OWN = Scheme("as the model", "integers with the scales and zero points of the model", fidelity=20)

#: The key of the metadata entry.
KEY = "onnx_compat.quantization"


def scheme_of(model: fb.ModelSpec) -> Optional[Scheme]:
    """Return the quantisation scheme that the metadata of a file names. Returns None without a known scheme."""
    kind = model.metadata.get(KEY, b"").decode("ascii", "replace")
    return next((scheme for scheme in (*SCHEMES, MODELS_OWN) if scheme.kind == kind), None)

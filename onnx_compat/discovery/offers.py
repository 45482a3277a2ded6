"""Extras that install a shim, by Python. Rendered from matrix/matrix.toml by `python -m matrix render`: edit there."""

from typing import NamedTuple, Tuple

__all__ = ["OFFERS", "Offer"]


class Offer(NamedTuple):
    """An extra that installs a shim with its framework: `pip install 'onnx-compat[<extra>]'`.

    `minor`: the minor version of the framework, or "" if the extra allows every version. `pythons`: the versions of
    Python for which the extra exists.
    """

    extra: str
    shim: str
    framework: str
    minor: str
    pythons: Tuple[str, ...]


OFFERS: Tuple[Offer, ...] = (
    Offer("tf1", "tf1", "tensorflow", "", ("3.7",)),
    Offer("tf2", "tf2", "tensorflow", "", ("3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")),
    Offer("tflite", "tflite", "ai-edge-litert", "", ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")),
    Offer("keras", "keras", "tensorflow", "", ("3.9", "3.10", "3.11", "3.12", "3.13")),
    Offer("keras-jax", "keras", "jax", "", ("3.11", "3.12", "3.13", "3.14")),
    Offer("keras-torch", "keras", "torch", "", ("3.11", "3.12", "3.13", "3.14")),
    Offer("tf1-14", "tf1", "tensorflow", "1.14", ("3.7",)),
    Offer("tf1-15", "tf1", "tensorflow", "1.15", ("3.7",)),
    Offer("tf2-0", "tf2", "tensorflow", "2.0", ("3.7",)),
    Offer("tf2-1", "tf2", "tensorflow", "2.1", ("3.7",)),
    Offer("tf2-1-cpu", "tf2", "tensorflow-cpu", "2.1", ("3.7",)),
    Offer("tf2-2", "tf2", "tensorflow", "2.2", ("3.7", "3.8")),
    Offer("tf2-2-cpu", "tf2", "tensorflow-cpu", "2.2", ("3.7", "3.8")),
    Offer("tf2-3", "tf2", "tensorflow", "2.3", ("3.7", "3.8")),
    Offer("tf2-3-cpu", "tf2", "tensorflow-cpu", "2.3", ("3.7", "3.8")),
    Offer("tf2-4", "tf2", "tensorflow", "2.4", ("3.7", "3.8")),
    Offer("tf2-4-cpu", "tf2", "tensorflow-cpu", "2.4", ("3.7", "3.8")),
    Offer("tf2-5", "tf2", "tensorflow", "2.5", ("3.7", "3.8", "3.9")),
    Offer("tf2-5-cpu", "tf2", "tensorflow-cpu", "2.5", ("3.7", "3.8", "3.9")),
    Offer("tf2-6", "tf2", "tensorflow", "2.6", ("3.7", "3.8", "3.9")),
    Offer("tf2-6-cpu", "tf2", "tensorflow-cpu", "2.6", ("3.7", "3.8", "3.9")),
    Offer("tf2-7", "tf2", "tensorflow", "2.7", ("3.7", "3.8", "3.9")),
    Offer("tf2-7-cpu", "tf2", "tensorflow-cpu", "2.7", ("3.7", "3.8", "3.9")),
    Offer("tf2-8", "tf2", "tensorflow", "2.8", ("3.7", "3.8", "3.9", "3.10")),
    Offer("tf2-8-cpu", "tf2", "tensorflow-cpu", "2.8", ("3.7", "3.8", "3.9", "3.10")),
    Offer("tf2-9", "tf2", "tensorflow", "2.9", ("3.7", "3.8", "3.9", "3.10")),
    Offer("tf2-9-cpu", "tf2", "tensorflow-cpu", "2.9", ("3.7", "3.8", "3.9", "3.10")),
    Offer("tf2-10", "tf2", "tensorflow", "2.10", ("3.7", "3.8", "3.9", "3.10")),
    Offer("tf2-10-cpu", "tf2", "tensorflow-cpu", "2.10", ("3.7", "3.8", "3.9", "3.10")),
    Offer("tf2-11", "tf2", "tensorflow", "2.11", ("3.8", "3.9", "3.10")),
    Offer("tf2-11-cpu", "tf2", "tensorflow-cpu", "2.11", ("3.8", "3.9", "3.10")),
    Offer("tf2-12", "tf2", "tensorflow", "2.12", ("3.8", "3.9", "3.10", "3.11")),
    Offer("tf2-12-cpu", "tf2", "tensorflow-cpu", "2.12", ("3.8", "3.9", "3.10", "3.11")),
    Offer("tf2-13", "tf2", "tensorflow", "2.13", ("3.8", "3.9", "3.10", "3.11")),
    Offer("tf2-13-cpu", "tf2", "tensorflow-cpu", "2.13", ("3.8", "3.9", "3.10", "3.11")),
    Offer("tf2-14", "tf2", "tensorflow", "2.14", ("3.9", "3.10", "3.11")),
    Offer("tf2-14-cpu", "tf2", "tensorflow-cpu", "2.14", ("3.9", "3.10", "3.11")),
    Offer("tf2-15", "tf2", "tensorflow", "2.15", ("3.9", "3.10", "3.11")),
    Offer("tf2-15-cpu", "tf2", "tensorflow-cpu", "2.15", ("3.9", "3.10", "3.11")),
    Offer("tf2-16", "tf2", "tensorflow", "2.16", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-16-cpu", "tf2", "tensorflow-cpu", "2.16", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-17", "tf2", "tensorflow", "2.17", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-17-cpu", "tf2", "tensorflow-cpu", "2.17", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-18", "tf2", "tensorflow", "2.18", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-18-cpu", "tf2", "tensorflow-cpu", "2.18", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-19", "tf2", "tensorflow", "2.19", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-19-cpu", "tf2", "tensorflow-cpu", "2.19", ("3.9", "3.10", "3.11", "3.12")),
    Offer("tf2-20", "tf2", "tensorflow", "2.20", ("3.9", "3.10", "3.11", "3.12", "3.13")),
    Offer("tf2-20-cpu", "tf2", "tensorflow-cpu", "2.20", ("3.9", "3.10", "3.11", "3.12", "3.13")),
    Offer("tf2-21", "tf2", "tensorflow", "2.21", ("3.10", "3.11", "3.12", "3.13")),
    Offer("tf2-21-cpu", "tf2", "tensorflow-cpu", "2.21", ("3.10", "3.11", "3.12", "3.13")),
    Offer("tflite2-7", "tflite", "tflite-runtime", "2.7", ("3.7", "3.8", "3.9")),
    Offer("tflite2-11", "tflite", "tflite-runtime", "2.11", ("3.7", "3.8", "3.9")),
    Offer("tflite2-13", "tflite", "tflite-runtime", "2.13", ("3.8", "3.9", "3.10")),
    Offer("tflite2-14", "tflite", "tflite-runtime", "2.14", ("3.8", "3.9", "3.10", "3.11")),
    Offer("litert1-0", "tflite", "ai-edge-litert", "1.0", ("3.9", "3.10", "3.11")),
    Offer("litert1-2", "tflite", "ai-edge-litert", "1.2", ("3.9", "3.10", "3.11", "3.12")),
    Offer("litert1-4", "tflite", "ai-edge-litert", "1.4", ("3.9", "3.10", "3.11", "3.12")),
    Offer("litert2-0", "tflite", "ai-edge-litert", "2.0", ("3.9", "3.10", "3.11", "3.12")),
    Offer("litert2-1", "tflite", "ai-edge-litert", "2.1", ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")),
    Offer("litert2-2", "tflite", "ai-edge-litert", "2.2", ("3.10", "3.11", "3.12", "3.13", "3.14")),
    Offer("litert2-3", "tflite", "ai-edge-litert", "2.3", ("3.10", "3.11", "3.12", "3.13", "3.14")),
    Offer("keras3-0-tensorflow", "keras", "keras", "3.0", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-0-tensorflow-cpu", "keras", "keras", "3.0", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-3-tensorflow", "keras", "keras", "3.3", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-3-tensorflow-cpu", "keras", "keras", "3.3", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-5-tensorflow", "keras", "keras", "3.5", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-5-tensorflow-cpu", "keras", "keras", "3.5", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-8-tensorflow", "keras", "keras", "3.8", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-8-tensorflow-cpu", "keras", "keras", "3.8", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-10-tensorflow", "keras", "keras", "3.10", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-10-tensorflow-cpu", "keras", "keras", "3.10", ("3.9", "3.10", "3.11", "3.12")),
    Offer("keras3-12-tensorflow", "keras", "keras", "3.12", ("3.10", "3.11", "3.12", "3.13")),
    Offer("keras3-12-tensorflow-cpu", "keras", "keras", "3.12", ("3.10", "3.11", "3.12", "3.13")),
    Offer("keras3-tensorflow", "keras", "keras", "3.15", ("3.11", "3.12", "3.13")),
    Offer("keras3-tensorflow-cpu", "keras", "keras", "3.15", ("3.11", "3.12", "3.13")),
    Offer("keras3-12-jax", "keras", "keras", "3.12", ("3.11", "3.12", "3.13", "3.14")),
    Offer("keras3-12-torch", "keras", "keras", "3.12", ("3.11", "3.12", "3.13", "3.14")),
    Offer("keras3-jax", "keras", "keras", "3.15", ("3.11", "3.12", "3.13", "3.14")),
    Offer("keras3-torch", "keras", "keras", "3.15", ("3.11", "3.12", "3.13", "3.14")),
)

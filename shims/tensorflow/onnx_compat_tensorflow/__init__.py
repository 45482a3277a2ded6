"""The TensorFlow primitives that the tf1 and tf2 shims share."""

__version__ = "0.1.0"

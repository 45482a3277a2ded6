"""The common part of the tf1, tf2 and keras shims: the TensorFlow emitters and what surrounds them."""

__version__ = "0.1.0"

"""Code that the shims tf1, tf2 and keras share: the TensorFlow emitters, feature detection, devices, names, ports."""

__version__ = "0.1.0"

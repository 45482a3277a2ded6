"""Quantise a .tflite file: its weights only, or its weights and its activations.

`weights` and `products` store weights in fewer bits, and need no other package. `library` calls ai-edge-quantizer, for
operators that compute with integers. `ranges` calibrates: it measures the ranges of the activations.
"""

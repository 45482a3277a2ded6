"""The CTC loss by its definition: the sum over all alignments."""

import itertools

import numpy as np


def alignments(labels, logits):
    """Return -log of the probability of the labels of an example: the sum over all paths that collapse to them."""
    probabilities, labels = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True), [label for label in labels if label]
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=logits.shape[0]):
        if [symbol for symbol, _ in itertools.groupby(path) if symbol] == labels:
            total += np.prod(probabilities[range(len(path)), path])
    return -np.log(total)

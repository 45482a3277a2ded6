"""Cases of each primitive: `CASES` maps the name of a primitive to a function that draws a case with hypothesis."""

from cases import bits, control, elementwise, images, indexing, linear, random, reduction, shape, text
from cases.making import CASES, FLAVOURS, Case, Flavour, Making, batches, dtypes_of

__all__ = [
    "CASES",
    "FLAVOURS",
    "Case",
    "Flavour",
    "Making",
    "batches",
    "bits",
    "control",
    "dtypes_of",
    "elementwise",
    "images",
    "indexing",
    "linear",
    "random",
    "reduction",
    "shape",
    "text",
]

"""Templates of operators, a module for each family. A new operator is a function with `@template`."""

from matrix.fuzz.templates import (
    control,
    elementwise,
    idioms,
    indexing,
    linear,
    logic,
    normalisation,
    quantisation,
    recurrent,
    reductions,
    sequences,
    shapes,
    text,
    windows,
)

"""Running the cells of the matrix: which of them, how many at once, what becomes of each, and what to see meanwhile."""

"""Run of the cells of the matrix: choose cells, schedule them, judge their outcomes, show the progress."""

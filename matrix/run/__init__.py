"""Run of the cells of the matrix: their choice, schedule, outcomes and display."""

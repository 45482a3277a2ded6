"""Scoreboard: an HTML page with the results of all cells, which loads no other file, and a badge for each shim."""

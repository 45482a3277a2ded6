"""Scoreboard: the results of all cells on a single page without other files."""

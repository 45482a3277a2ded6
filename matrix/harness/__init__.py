"""Harness of the recorded and generated cases, independent of pytest: compare, run, judge, tally."""

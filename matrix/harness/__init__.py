"""Harness of the recorded and generated cases, independent of pytest: select cases, run them, compare, judge, count."""

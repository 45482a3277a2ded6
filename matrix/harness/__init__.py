"""Harness of the recorded and generated cases, independent of pytest: select cases, run them, compare, judge, count.

`generators` and `edits` are helpers of tests.
"""

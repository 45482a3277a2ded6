"""The runner of the recorded and generated cases, free of pytest: compare, run, judge, tally."""

"""Mutation testing: change one expression or statement of a module, and see whether a test fails.

`nox -s mutation` runs it. mutmut 3 skips decorated functions, which are most inference rules and primitives. cosmic-ray
runs all tests for each mutant. This runner changes the code of a live function in a forked process, and runs the tests
that execute the changed statement.
"""

"""Mutation testing: change one expression or statement of a module (a mutant), and check that a test fails.

`nox -s mutation` runs it. mutmut 3 skips decorated functions, which are most inference rules and primitives. cosmic-ray
runs all tests for each mutant. This runner replaces the code of a loaded function in a forked process, and runs only
the tests that execute the changed statement.
"""

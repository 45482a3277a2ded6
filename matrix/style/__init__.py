"""Style check of names, docstrings, comments and commit subjects.

`python -m matrix.style` checks every tracked Python file; with arguments, only these files and folders. `python -m
matrix.style --commit-msg FILE` checks the subject of a commit message.
"""

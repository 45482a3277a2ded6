"""The style check of names, docstrings, comments and commit subjects.

`python -m matrix.style` checks every tracked Python file, or the files and folders that it is given.
`python -m matrix.style --commit-msg FILE` checks the subject of a commit message.
"""

"""Discovery: find the installed shims, probe them, select one, explain why a shim fails, and name the extra that
installs it.
"""

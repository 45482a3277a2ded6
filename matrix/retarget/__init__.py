"""Figures of models at other opsets: recorded cases, networks, test suites of converters, time: `nox -s retarget`."""

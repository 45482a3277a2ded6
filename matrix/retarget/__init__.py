"""Measure how many recorded cases converters of opsets write right, for several targets: `nox -s retarget`."""

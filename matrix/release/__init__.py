"""Release: distributions, notes and bills of materials, built from the commit and checked, in dist/release."""

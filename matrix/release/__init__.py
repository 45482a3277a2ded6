"""Release: build distributions, release notes and bills of materials from the commit, and check them, in dist/release."""

"""What is published, built from the commit and checked: distributions, notes and bills of materials, in dist/release."""

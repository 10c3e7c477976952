"""Verification on lanes: kernels for the circuits that have them, and who chooses."""

"""Kernels of the circuits that check one digit per call of the gadget: Count and Sum."""

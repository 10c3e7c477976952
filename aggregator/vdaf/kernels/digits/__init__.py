"""Kernels of the circuits that check a digit per call of the gadget: Count and Sum."""

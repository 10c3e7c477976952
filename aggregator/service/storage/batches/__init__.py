"""Batches: their un-noised sums, which of them are closed, and which a leader selects."""

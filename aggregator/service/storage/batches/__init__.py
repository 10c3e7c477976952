"""Batches: their un-noised sums, which buckets are closed, the batches that a leader selects."""

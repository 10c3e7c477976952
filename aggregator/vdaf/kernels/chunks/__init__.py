"""Kernels of the circuits that check digits in chunks: Histogram, SumVec and the like."""

"""Differential privacy: budgets, noise and what it guarantees. Pure: entropy is an argument.

Noise is added in `release`, and nowhere else.
"""

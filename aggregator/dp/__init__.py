"""Differential privacy: budgets, noise and its guarantees. Pure: entropy is an argument.

Noise is added in `release`, and nowhere else.
"""

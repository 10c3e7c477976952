"""What recomputes the papers: their figures, claims, rivals and exact curves, with what is sound.

Only commands of `prio plan` import it. What a decision needs is in `steward.planning`.
"""

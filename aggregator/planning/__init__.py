"""What a steward, an auditor or a reader of a ledger computes, and no service does.

Choosing an epsilon, weighing published claims, comparing bounds, auditing from outside. It stands
above `protocol`, and nothing that serves a task may import it.
"""

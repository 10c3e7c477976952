"""What stewards, auditors and readers of a ledger compute, and no service does.

Choosing an epsilon, weighing published claims, comparing bounds, auditing from outside. It is above
`protocol`, and nothing that serves a task may import it.
"""

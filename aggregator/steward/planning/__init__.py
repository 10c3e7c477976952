"""Computations for stewards, auditors and readers of a ledger, which no service needs.

They choose an epsilon, weigh published claims, compare bounds and audit from outside. The package
builds on `protocol`, and nothing that serves a task may import it.
"""

"""Audits: whether a mechanism, a program, or a pair of aggregators releases what it promises."""

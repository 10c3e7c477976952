"""How many reports a client sends together."""

REPORTS_PER_REQUEST = 200
"""The default."""

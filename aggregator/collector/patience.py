"""How long a collector waits."""

WAIT_SECONDS = 300
"""How long to wait for a batch that is not ready, by default."""

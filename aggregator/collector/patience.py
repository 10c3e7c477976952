"""How long a collector waits."""

WAIT_SECONDS = 300
"""For a batch that is not ready, unless the caller says."""

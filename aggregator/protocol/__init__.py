"""What each party does: pure functions from state and message to state and message."""

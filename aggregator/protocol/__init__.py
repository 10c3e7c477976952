"""What each party does, as functions from state and message to state and message. Pure."""

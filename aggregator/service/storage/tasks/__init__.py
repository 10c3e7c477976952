"""Tasks, their tokens and HPKE keys, and the deletion of what is no longer needed."""

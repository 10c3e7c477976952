"""Tasks, their tokens and HPKE keys, and how what is old is forgotten."""

"""A synthetic table of a survey, and what can be said of pairs and of three answers."""

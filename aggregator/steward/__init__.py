"""The steward's tools: choose a privacy budget, plan a survey, prove what releases promise."""

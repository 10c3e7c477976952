"""Commands of whoever uploads measurements and collects results."""

"""Reports: their ids, their bodies, how many wait, and what became of the others."""

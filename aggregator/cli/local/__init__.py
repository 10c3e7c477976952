"""Commands that run all parties on this machine, to try things out."""

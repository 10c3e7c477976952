"""Measures how fast this machine is; part of the source checkout, not of the installed package."""

"""How fast this machine is: part of the source checkout, not of the package that is installed."""

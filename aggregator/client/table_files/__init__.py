"""Tables in files of other programs: each cell is read as one of a few values, by one law."""

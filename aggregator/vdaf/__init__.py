"""The VDAF draft's Prio3 and its parts, for batches of reports. Pure: randomness is an argument."""

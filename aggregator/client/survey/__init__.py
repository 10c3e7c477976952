"""A survey as an application asks it: answers by name become the entries of one report."""

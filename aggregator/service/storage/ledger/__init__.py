"""Privacy spent: the charges of releases, and the journal of them that no backup takes back."""

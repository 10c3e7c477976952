"""Privacy spent: the charges of releases, and the journal, which no backup can set back."""

"""The database: its two backends, its tables and their states, transactions, locks, the schema."""

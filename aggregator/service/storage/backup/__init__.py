"""Backups of a store, and how a store restored from one catches up with the journal."""

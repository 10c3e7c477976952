"""Backups, and what is entered into a store that was restored from one."""

"""Alembic revisions of the store's schema, one file a revision in `versions`."""

"""Alembic revisions of the store's schema, one file per revision in `versions`."""

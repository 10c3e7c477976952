"""Runs the revisions for Alembic, over the connection that `schema` has opened."""

from alembic import context

from aggregator.service.storage.engine.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()

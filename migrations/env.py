"""Runs migrations in one transaction each call, DDL included, so that a schema is old or new and never between (cases.md R11)."""

from alembic import context

from service.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=metadata, transactional_ddl=True, transaction_per_migration=False
)
with context.begin_transaction():
    context.run_migrations()

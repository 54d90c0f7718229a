"""Intents: how they were answered, and what that taught."""

from sqlalchemy import Boolean, Column, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from service.store.tables.metadata import metadata

# Answers to intents: what an exact call may name as `match_id`, and what the report of missing tools is made from.
matches = Table(
    "matches",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("actor", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("intent", Text, nullable=False),
    Column("found", Boolean, nullable=False),
    Column("candidates", Text, nullable=False),
    Column("taken", Text),  # the tool that was run for it, once one succeeded
)
Index("ix_matches_actor", matches.c.actor, matches.c.seq)
Index("ix_matches_found", matches.c.found, matches.c.seq)

# What accepted matches taught: words of an intent, for a tool as long as what it does stays the same (`meaning`).
learned_intents = Table(
    "learned_intents",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("meaning", LargeBinary, nullable=False),
    Column("intent", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("learned_at", Text, nullable=False),
    Column("learn_index", Integer, nullable=False),
    UniqueConstraint("tool", "intent", "actor"),
)

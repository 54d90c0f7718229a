"""Rows in, nouns out; the only room with SQL."""

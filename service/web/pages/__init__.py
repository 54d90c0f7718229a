"""Pages for people: what the API gives, in the reader's language, and nothing else (no page has a query of its own)."""

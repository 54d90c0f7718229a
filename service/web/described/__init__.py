"""What the OpenAPI document says: one file a resource, each with its `schemas` and its `routes`."""

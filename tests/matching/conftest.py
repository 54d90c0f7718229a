"""Far sides on loopback, for what asks an endpoint."""

from tests.harness.far_side import far_side

__all__ = ["far_side"]

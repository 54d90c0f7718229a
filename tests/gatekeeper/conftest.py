"""Far sides that misbehave, for all tests here."""

from tests.harness.far_side import answering, far_side

__all__ = ["answering", "far_side"]

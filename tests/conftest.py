"""What all tests share. The mark `slow` stands in pyproject.toml, which also leaves those tests out."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slow`: also the loops and full sets that take minutes (`-m slow` runs them alone)."""
    parser.addoption("--slow", action="store_true", default=False, help="also run the tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    """`--slow` takes back the `-m "not slow"` of pyproject.toml."""
    if config.getoption("--slow") and config.option.markexpr == "not slow":
        config.option.markexpr = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A slow test may take an hour; for all others pyproject.toml's limit stands."""
    for item in items:
        if "slow" in item.keywords and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(3600))

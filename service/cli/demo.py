"""`bitong demo`: the service on embedded defaults."""

import typer


def register(application: typer.Typer) -> None:
    """The command."""
    application.command("demo")(demo)


def demo() -> None:
    """示例 / example: bitong demo"""
    raise typer.Exit(3)

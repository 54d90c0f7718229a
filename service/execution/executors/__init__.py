"""The ways to run a tool."""

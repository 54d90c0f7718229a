"""Bitong (笔筒): a git-native registry of tools, with an exec service and a record anyone can check."""

__version__ = "0.1.0"

"""Checkpoints on a branch of their own in a repository that the operator names (contract/audit.md, Anchors).

`part.py` decides when and what, in the service; `commit.py` speaks git, in a process that ends with each commit.
"""

"""The product from outside: a real service process, a real forge's side of it, and the reference gatekeeper.

Nothing here imports from `service`; all of it goes through HTTP, git and the command line.
"""

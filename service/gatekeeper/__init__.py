"""The reference gatekeeper: runs commands and reaches files and URLs on a server, for who holds its token."""

"""From a call to a receipt."""

"""From a webhook to a registered tool."""

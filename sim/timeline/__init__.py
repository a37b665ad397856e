"""A run as a timeline that a browser shows."""

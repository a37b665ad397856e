"""The first scenario of a newcomer."""

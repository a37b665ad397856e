"""Decisions set against recordings of vLLM's own scheduler."""

"""Scenarios from what a running vLLM prints and exports, and simulated runs against it."""

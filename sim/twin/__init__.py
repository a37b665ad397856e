"""The toy engine in real time, set against its simulation."""

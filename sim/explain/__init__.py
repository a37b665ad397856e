"""`kvsim explain`: where the time of the requests of a run went, and what that is up to."""

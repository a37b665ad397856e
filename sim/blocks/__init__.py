"""The blocks of a pool as a picture."""

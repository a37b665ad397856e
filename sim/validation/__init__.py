"""Predictions set against measurements of real serving systems."""

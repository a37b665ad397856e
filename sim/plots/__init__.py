"""Figures. They read summaries and records and compute no metric."""

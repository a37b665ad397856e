"""A run, a sweep or a plan as one HTML file to look at and to send."""

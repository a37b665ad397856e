"""What a scenario can name, and what runs are measured by."""

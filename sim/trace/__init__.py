"""What is in a trace: `kvsim trace`."""

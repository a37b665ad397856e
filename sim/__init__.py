"""The simulator: scenarios, step latencies, the replica process, metrics, figures, CLI."""

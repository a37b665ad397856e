"""The capacity planner: what meets promises of latency, and how sure that is."""

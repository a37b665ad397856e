"""Step-latency models: how long a step takes, from the shape of its batch alone."""

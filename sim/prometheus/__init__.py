"""Results of runs as metrics of Prometheus, under vLLM's names where vLLM has them."""

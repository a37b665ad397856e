"""Many runs of a scenario: grids, samples, replications, and what is kept of them."""

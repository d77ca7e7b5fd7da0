"""ddprun beside its peers: what tools/bench/run runs."""

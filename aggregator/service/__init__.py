"""What an aggregator runs: leader and helper, their store, their HTTP, their telemetry."""

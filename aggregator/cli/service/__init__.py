"""Commands of whoever runs an aggregator."""

"""The leader's shell around `protocol`."""

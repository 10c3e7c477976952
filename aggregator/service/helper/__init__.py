"""The helper's shell around `protocol`."""

"""Speaking to another party."""

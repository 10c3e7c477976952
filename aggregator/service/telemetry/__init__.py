"""What operators see of a running process."""

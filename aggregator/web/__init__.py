"""What every server shares."""

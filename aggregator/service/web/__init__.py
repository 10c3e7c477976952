"""The parts that every HTTP server shares."""

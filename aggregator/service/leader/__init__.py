"""The leader: its HTTP resources and its workers, around the pure rules of `protocol`."""

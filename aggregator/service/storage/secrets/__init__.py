"""What protects the store's secrets: its key, the keys of its buckets, files that hold secrets."""

"""What protects the store's secrets: the store key, the bucket keys, files that hold secrets."""

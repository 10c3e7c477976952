"""HTTP to other parties."""

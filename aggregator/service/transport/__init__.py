"""HTTP requests to other parties."""

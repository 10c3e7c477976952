"""Verification on lanes: fused kernels for some circuits, and the choice between them."""

"""physics/placement."""

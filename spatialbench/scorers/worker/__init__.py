"""External workers: models that need an environment of their own, asked over one small protocol (docs/workers.md)."""

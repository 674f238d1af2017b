"""The ``spatialbench`` command."""

"""spatialbench: tells whether a generated world holds up when it is used.

Importing the package is cheap on purpose: simulators, ray casters and learned models load on first use.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]

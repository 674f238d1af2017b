"""Puts the shim into every Python process that tests start with this folder on PYTHONPATH."""

import torchvision_shim  # noqa: F401

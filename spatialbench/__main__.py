"""``python -m spatialbench`` is the same command as ``spatialbench``."""

from spatialbench.cli.main import main

if __name__ == "__main__":
    main()

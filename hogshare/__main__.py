"""``python -m hogshare`` is the ``hogshare`` command."""

import sys

from hogshare.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

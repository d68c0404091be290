"""``python -m ars``: the command ``ars``, where it is not on the PATH."""

import sys

from ars.cli import main

if __name__ == "__main__":
    sys.exit(main())

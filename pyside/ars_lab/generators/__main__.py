"""``python -m ars_lab.generators``."""

import sys

from ars_lab.generators.driver import main

sys.exit(main())

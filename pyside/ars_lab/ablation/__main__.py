"""``python -m ars_lab.ablation``"""

import sys

from ars_lab.ablation.command import main

sys.exit(main())

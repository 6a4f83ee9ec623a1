"""``python -m causalrag.cli`` is the command ``causalrag``."""

import sys

from causalrag.cli import main

if __name__ == "__main__":
    sys.exit(main())

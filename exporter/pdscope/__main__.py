"""`python -m pdscope`."""

import sys

from pdscope.cli import main

if __name__ == "__main__":
    sys.exit(main())

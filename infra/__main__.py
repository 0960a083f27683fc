"""`python -m infra` is the `regent` command line: what the supervisor starts, wherever the script lies."""

import sys

from infra.cli import main

if __name__ == "__main__":
    sys.exit(main())

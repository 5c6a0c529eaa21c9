"""`python -m bench`. Client processes import this module again, so it imports nothing that they do not need."""

import sys

if __name__ == "__main__":
    from bench.command import main

    sys.exit(main())

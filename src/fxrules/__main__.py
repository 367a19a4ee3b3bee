"""``fxrules`` and ``python -m fxrules``."""

from __future__ import annotations

import sys

from .engine.tools.commands import main

if __name__ == "__main__":
    sys.exit(main())

"""Where this package is."""

from __future__ import annotations

import os

# As tracebacks name its files: links are not followed.
FOLDER = os.path.dirname(os.path.abspath(__file__))

from __future__ import annotations

import signal
import sys

from ..errors import exit_with
from .command_line import main

# Nothing half written is left: as an interrupt.
for number in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
        signal.signal(number, lambda number, _: sys.exit(128 + number))
exit_with(main)

"""Progress on stderr: one moving line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time

PLAIN_EVERY_S = 5.0
TTY_EVERY_S = 0.1


class Progress:
    """Counts steps of one phase."""

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()
        self._last = time.monotonic()
        self._width = 0

    def step(self, phase: str, done: int, total: int, what: str) -> None:
        """Say where the run stands, not more often than a reader can follow."""
        now = time.monotonic()
        if now - self._last < (TTY_EVERY_S if self._tty else PLAIN_EVERY_S):
            return
        self._last = now
        line = f"gate: {phase} {done}/{total} {what}"[:100]
        if self._tty:
            sys.stderr.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.close()
        print(f"gate: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the moving line."""
        if self._tty and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            self._width = 0

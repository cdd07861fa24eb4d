"""Exit codes shared by every verb, and the one exception that carries one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """What a verb tells its caller; never a count."""

    GOOD = 0
    BAD = 1
    USAGE = 2
    NOT_COMPARABLE = 3
    INCOMPLETE = 4
    INCONCLUSIVE = 5
    INTERNAL = 70
    NOTHING_RAN = 77


EXIT_PRIORITY = (
    Exit.INTERNAL,
    Exit.USAGE,
    Exit.NOT_COMPARABLE,
    Exit.INCOMPLETE,
    Exit.BAD,
    Exit.INCONCLUSIVE,
    Exit.NOTHING_RAN,
)


def combine(codes: Iterable[int]) -> Exit:
    """The code that wins when several findings ask for one."""
    present = set(codes)
    for code in EXIT_PRIORITY:
        if code in present:
            return code
    return Exit.GOOD


class ToolError(Exception):
    """An expected failure: a message for the user and the exit code it maps to."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code

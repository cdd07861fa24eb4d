"""Small shared pieces of the command lines."""

from __future__ import annotations

import argparse
import math
import os
import sys


class Parser(argparse.ArgumentParser):
    """No abbreviations: a typed flag means what it says or is refused with exit 2."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]


def positive_int(text: str) -> int:
    """An integer above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not above zero")
    return value


def non_negative_int(text: str) -> int:
    """An integer, zero or above."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return value


def positive_float(text: str) -> float:
    """A finite number above zero."""
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def emit(text: str) -> None:
    """Print; a reader that hung up changes neither the verdict nor the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

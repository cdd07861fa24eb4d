"""Small shared pieces of the command lines."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from typing import Any

from assay_tools.errors import ToolError


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Defaults behind each option that has one; the epilog keeps its lines."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        plain = action.default not in (None, False, argparse.SUPPRESS, []) and action.default != ""
        if text and plain and action.option_strings and "default" not in text:
            text += " (default: %(default)s)"
        return text


class Parser(argparse.ArgumentParser):
    """No abbreviations: a typed flag means what it says or is refused with exit 2."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            emit(message)
        else:
            super()._print_message(message, file)


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
    if sys.stdout is None:
        raise ToolError("stdout: cannot write: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        silence_stdout()
        if not isinstance(error, BrokenPipeError):
            raise ToolError(f"stdout: cannot write: {error.strerror}") from None


def silence_stdout() -> None:
    """What is still buffered goes nowhere, so that the interpreter's own flush cannot fail."""
    with contextlib.suppress(OSError, ValueError):  # a test may have put something else there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Writing results so that a killed run never leaves half a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from assay_tools.errors import ToolError


def _special(path: Path) -> bool:
    """A pipe or device, which must be written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write beside the target, flush, rename over it; a link keeps pointing where it did."""
    raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    try:
        path = path.resolve()
        if _special(path):
            path.write_bytes(raw)
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(raw)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolError(f"{path}: cannot write: {error.strerror}") from None


def prepare_directory(path: Path) -> None:
    """Make the output directory and prove that it can be written, before any long run."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            pass
    except OSError as error:
        raise ToolError(f"{path}: cannot write there: {error.strerror}") from None


def prepare_file(path: Path) -> None:
    """The same for one file, whose folder must exist: a mistyped one is not made silently."""
    if path.is_dir():
        raise ToolError(f"{path}: cannot write: it is a folder")
    if not path.parent.is_dir():
        raise ToolError(f"{path}: cannot write: the folder {path.parent} does not exist")
    if not _special(path):
        prepare_directory(path.parent)

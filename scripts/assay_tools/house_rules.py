"""House rules that no compiler checks: layers, sizes, words."""

from __future__ import annotations

import re
from pathlib import Path

# A file of the left part may include headers of the right parts only (design: downward only).
BASE = ("assay/base/",)
CUDA = (*BASE, "assay/cuda/")
BACKING = (*CUDA, "assay/backing/")
BUFFER = (*BACKING, "assay/buffer/")
LAYERS: dict[str, tuple[str, ...]] = {
    "core/include/assay/base": BASE,
    "core/src/base": BASE,
    "core/include/assay/cuda/abi": ("assay/cuda/abi/",),
    "core/include/assay/cuda": CUDA,
    "core/src/cuda": CUDA,
    "core/include/assay/backing": BACKING,
    "core/src/backing": BACKING,
    "core/include/assay/buffer": BUFFER,
    "core/src/buffer": BUFFER,
    "core/model": ("assay/cuda/abi/",),
}
INCLUDE = re.compile(r'^\s*#include "([^"]+)"')
SOURCE_SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".py", ".def"}
MAX_LINES = 500
MAX_COLUMNS = 100
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def findings(root: Path, files: list[str]) -> list[str]:
    """Every breach, one line each: `file:line: what`."""
    found: list[str] = []
    for name in files:
        path = root / name
        if path.suffix not in SOURCE_SUFFIXES or not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_LINES:
            found.append(f"{name}: {len(lines)} lines; split it (limit {MAX_LINES})")
        allowed = next((v for k, v in LAYERS.items() if name.startswith(k + "/")), None)
        for number, line in enumerate(lines, 1):
            found += [f"{name}:{number}: {what}" for what in breaches(name, line, allowed)]
    return found


def breaches(name: str, line: str, allowed: tuple[str, ...] | None) -> list[str]:
    what: list[str] = []
    if len(line) > MAX_COLUMNS:
        what.append(f"{len(line)} columns (limit {MAX_COLUMNS})")
    if UNFINISHED.search(line):
        what.append("unfinished work: do it, or file it")
    if not (match := INCLUDE.match(line)):
        return what
    header = match[1]
    if allowed is not None and header.startswith("assay/") and not header.startswith(allowed):
        what.append(f"includes {header}: dependencies point downward only")
    if name.startswith("bench/") and "properties/" in header:
        what.append(f"includes {header}: bench never includes properties")
    if name.startswith("properties/") and "bench/" in header:
        what.append(f"includes {header}: properties never include bench")
    return what

"""JSON as the standard has it: whatever is not, is refused with its position.

Python's own parser takes NaN, Infinity, 1e999 and duplicate keys without a word; a gate must not.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

from assay_tools.errors import Exit, ToolError

SCHEMA_DIR = Path(__file__).parent / "schemas"
_STRING_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|(-?(?:NaN|Infinity))')
DIGITS_MAX = 310  # a double has no more
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING_OR_NUMBER = re.compile(r'"(?:\\.|[^"\\])*"|(-?\d[\d.eE+-]*)')


class _RefusedError(Exception):
    """A literal or key that is legal for Python's parser only."""

    def __init__(self, message: str, literal: str = "") -> None:
        super().__init__(message)
        self.literal = literal


def _refuse_constant(literal: str) -> Any:
    raise _RefusedError(f"{literal} is not a JSON number", literal)


def _finite(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise _RefusedError(f"{_cut(literal)} does not fit a double", literal)
    return value


def _whole(literal: str) -> int:
    if len(literal) > DIGITS_MAX or not math.isfinite(float(literal)):
        raise _RefusedError(f"{_cut(literal)} does not fit a double", literal)
    return int(literal)


def _cut(literal: str) -> str:
    return literal if len(literal) <= 40 else f"{literal[:20]}... ({len(literal)} characters)"


def _refuse_surrogates(value: Any, name: str) -> None:
    """Half of a UTF-16 pair is no character, and no output could hold it."""
    waiting = [("", value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, dict):
            waiting += [(f"{path}/{key}", inner) for key, inner in item.items()]
            waiting += [(path, key) for key in item]
        elif isinstance(item, list):
            waiting += [(f"{path}/{index}", inner) for index, inner in enumerate(item)]
        elif isinstance(item, str) and _SURROGATE.search(item):
            where = _SURROGATE.sub("?", path) or "the top level"
            raise ToolError(f"{name}: unusable JSON: {item!r} at {where} has a lone surrogate")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            owner = f" in the object named {result['name']!r}" if "name" in result else ""
            raise _RefusedError(f"duplicate key {key!r}{owner}")
        result[key] = value
    return result


def _place(text: str, literal: str) -> str:
    for pattern in (_STRING_OR_CONSTANT, _STRING_OR_NUMBER):
        for match in pattern.finditer(text):
            if literal and match.group(1) == literal:
                start = match.start()
                line = text.count("\n", 0, start) + 1
                return f":{line}:{start - text.rfind(chr(10), 0, start)}"
    return ""


def parse(data: bytes, name: str) -> Any:
    """The value in `data`; a ToolError that starts with `name:line:column` otherwise."""
    if not data.strip():
        raise ToolError(f"{name}: empty file, expected JSON")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(f"{name}:1:1: byte order mark before the JSON text; save without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{name}: not UTF-8 at byte {error.start}") from None
    try:
        value = json.loads(
            text,
            parse_int=_whole,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        cut = " (the file looks cut off)" if error.pos >= len(text.rstrip()) else ""
        raise ToolError(f"{name}:{error.lineno}:{error.colno}: {error.msg}{cut}") from None
    except _RefusedError as error:
        raise ToolError(f"{name}{_place(text, error.literal)}: {error}") from None
    except (RecursionError, ValueError) as error:
        raise ToolError(f"{name}: unusable JSON: {error}") from None
    if "\\u" in text:
        _refuse_surrogates(value, name)
    return value


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or a ToolError naming the path and the system's reason."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolError(f"{path}: cannot read: {error.strerror}") from None


def load(path: Path) -> Any:
    """Parse one file strictly."""
    return parse(read_bytes(path), str(path))


def digest(data: bytes) -> str:
    """SHA-256 in hex: how results name their inputs."""
    return hashlib.sha256(data).hexdigest()


def dumps(value: Any) -> str:
    """Stable text: two equal values give equal bytes, and a non-finite number is a defect."""
    text = json.dumps(value, indent=1, sort_keys=False, allow_nan=False, ensure_ascii=False)
    # Arguments that are not UTF-8 hold lone surrogates; they become visible escapes.
    return _SURROGATE.sub(lambda match: f"\\\\u{ord(match.group()):04x}", text) + "\n"


@functools.cache
def _validator(schema: str) -> Any:
    import jsonschema

    loaded = json.loads((SCHEMA_DIR / f"{schema}.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(loaded)


def validate(value: Any, schema: str, name: str, code: Exit = Exit.USAGE) -> None:
    """Check `value` against `schemas/<schema>.schema.json`; the first fault is named."""
    faults = sorted(_validator(schema).iter_errors(value), key=lambda fault: str(list(fault.path)))
    if faults:
        first = faults[0]
        where = "/".join(str(part) for part in first.absolute_path) or "(top level)"
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        message = f"at {where}: {first.message[:200]}{more}"
        raise ToolError(f"{name}: not a valid {schema} file: {message}", code)

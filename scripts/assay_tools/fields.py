"""Fields of JSON objects read with care: what has the wrong type or size is refused by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from assay_tools.errors import ToolError

SHOWN_MAX = 60
SIZE_MAX = 2**64


def shown(value: Any) -> str:
    """A value short enough for a message."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."


def is_number(value: Any) -> bool:
    """A JSON number that a double can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def number(row: Mapping[str, Any], key: str, where: str) -> float | None:
    """A finite number, or nothing where the field is absent or null."""
    value = row.get(key)
    if value is None:
        return None
    if not is_number(value):
        raise ToolError(f"{where}: {key} is {shown(value)}, expected a number")
    return float(value)


def integer(row: Mapping[str, Any], key: str, where: str) -> int | None:
    """A whole number, or nothing where the field is absent or null."""
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ToolError(f"{where}: {key} is {shown(value)}, expected a whole number")
    return value


def text(row: Mapping[str, Any], key: str, where: str, default: str = "") -> str:
    """A string; `default` where the field is absent or null."""
    value = row.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ToolError(f"{where}: {key} is {shown(value)}, expected a string")
    return value


def size(digits: str) -> int | None:
    """A size written inside a name; nothing for what no memory could have."""
    if not digits.isdecimal() or len(digits.lstrip("0")) > len(str(SIZE_MAX)):
        return None
    value = int(digits.lstrip("0") or "0")
    return value if value <= SIZE_MAX else None


def is_model(context: Mapping[str, Any]) -> bool:
    """Whether a result's driver is the model: it says nothing of a device, least of all times."""
    kinds = (str(context.get("driver", "")), str(context.get("device_kind", "")))
    return any(kind.lower().startswith("model") for kind in kinds)

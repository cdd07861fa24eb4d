"""What the user asked of a comparison, as data."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path

from assay_tools import strict_json
from assay_tools.errors import ToolError


@dataclass(frozen=True)
class GatedCounter:
    """A counter the user put under the gate: its direction, and the limit where base is zero."""

    name: str
    higher_is_better: bool
    zero_limit: float = 0.0

    @staticmethod
    def parse(text: str) -> GatedCounter:
        """`NAME=lower`, `NAME=higher` or `NAME=lower,LIMIT`."""
        name, equals, rest = text.partition("=")
        direction, _, limit = rest.partition(",")
        if not name or not equals or direction not in ("lower", "higher"):
            raise ToolError(f"--metric {text!r}: expected NAME=lower[,LIMIT] or NAME=higher")
        try:
            return GatedCounter(name, direction == "higher", float(limit) if limit else 0.0)
        except ValueError:
            raise ToolError(f"--metric {text!r}: {limit!r} is not a number") from None


@dataclass(frozen=True)
class Options:
    """Matching, strictness and rerun hints; the statistics live in Rule."""

    seed: int = 1
    strict: bool = False
    require: tuple[str, ...] = ()
    allow_missing: tuple[str, ...] = ()
    allow_mismatch: tuple[str, ...] = ()
    renames: dict[str, str] = field(default_factory=dict)
    counters: tuple[GatedCounter, ...] = ()
    min_overlap: float = 0.0
    rerun_prefix: str = "assay gate ab --base BASE_BINARY --head HEAD_BINARY"

    def may_be_missing(self, name: str) -> bool:
        """Whether the allow list covers this benchmark (`*` is a wildcard)."""
        return any(name == p or fnmatch.fnmatchcase(name, p) for p in self.allow_missing)

    def required(self, name: str) -> bool:
        """Whether the user insists on this benchmark."""
        return any(name == p or fnmatch.fnmatchcase(name, p) for p in self.require)


def load_renames(path: Path | None) -> dict[str, str]:
    """A JSON object old name -> new name, kept in the repository; no guessing."""
    if path is None:
        return {}
    value = strict_json.load(path)
    if not isinstance(value, dict) or not all(isinstance(new, str) for new in value.values()):
        raise ToolError(f"{path}: expected a JSON object of old name: new name")
    if len(set(value.values())) != len(value):
        raise ToolError(f"{path}: two old names map to one new name")
    return dict(value)

"""Whether two result files may be compared at all: build, suite, machine and device must agree.

An absent field counts as different, never as equal. A plain Google Benchmark file carries only
what the library writes itself, so assay's own fields are demanded as soon as one file has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay_tools.fields import is_model, is_number

# Written by every Google Benchmark: a file without them says nothing about where it came from.
ALWAYS_REQUIRED = ("num_cpus", "library_build_type")
# Written by every assay benchmark.
ASSAY_REQUIRED = (
    "assay_schema", "compiler", "compiler_flags", "build_type",
    "cpu_model", "kernel", "page_size", "driver",
)  # fmt: skip
GROUPS: dict[str, tuple[str, ...]] = {
    "build": (
        "library_build_type", "library_version", "benchmark_library_version", "compiler",
        "compiler_flags", "build_type", "lto", "sanitizers", "harness_options",
        "allocator_options",
    ),
    "suite": (
        "assay_schema", "json_schema_version", "metric_definitions", "isolation", "filter_hash",
        "iteration_policy", "scope", "seed",
    ),
    "machine": (
        "num_cpus", "caches", "cpu_scaling_enabled", "cpu_vendor", "cpu_model", "cpu_stepping",
        "cpus_online", "cpus_allowed", "memory_bytes", "numa_nodes", "page_size", "thp", "kernel",
        "governor", "boost", "hypervisor", "cgroup_cpu_quota", "glibc", "malloc_environment",
        "aslr_enabled",
    ),
    "device": (
        "driver", "device_kind", "device_model_version", "device_name", "device_uuid_hash",
        "compute_capability", "sm_count", "device_memory_bytes", "bus_width", "ecc", "mig",
        "driver_version", "driver_profile", "runtime_version", "clocks_locked", "persistence",
    ),
}  # fmt: skip
INFORM = ("commit", "dirty", "assay_version", "binary_sha256", "host_name")
# Changes from run to run on one machine, or is the tool's own note.
IGNORED = {
    "date", "executable", "mhz_per_cpu", "load_avg", "ab_session", "ab_side", "ab_seed",
}  # fmt: skip
ABSENT = "(absent)"


@dataclass(frozen=True)
class Mismatch:
    """One field that differs; `hard` ones cannot be overridden."""

    field: str
    group: str
    base: str
    head: str
    hard: bool = False

    def text(self) -> str:
        """One line for people."""
        return f"{self.field} ({self.group}): base {self.base}, head {self.head}"


@dataclass
class MetadataReport:
    """Differences that refuse, that were waved through, and that merely inform."""

    refused: list[Mismatch] = field(default_factory=list)
    allowed: list[Mismatch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    invalid_conditions: list[str] = field(default_factory=list)


def shown(value: Any) -> str:
    """A short printable form of a context value."""
    if value is None:
        return ABSENT
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _present(value: Any) -> bool:
    """Whether a required field says anything; assay writes "unknown" for what it cannot read."""
    return value not in (None, "", "unknown")


def _fields_to_check(
    base: Mapping[str, Any], head: Mapping[str, Any], groups: Iterable[str]
) -> list[tuple[str, str]]:
    ours = any(_present(side.get("assay_schema")) for side in (base, head))
    result = []
    for group in groups:
        for name in GROUPS[group]:
            required = name in ALWAYS_REQUIRED or (ours and name in ASSAY_REQUIRED)
            if required or name in base or name in head:
                result.append((group, name))
    return result


def compare_contexts(
    base: Mapping[str, Any],
    head: Mapping[str, Any],
    allowed: Iterable[str] = (),
    groups: Iterable[str] = ("build", "suite", "machine", "device"),
) -> MetadataReport:
    """Compare field by field; `allowed` names the differences the user accepts."""
    report = MetadataReport()
    waved = set(allowed)
    model_against_real = is_model(base) != is_model(head)
    for group, name in _fields_to_check(base, head, groups):
        ours, theirs = base.get(name), head.get(name)
        required = name in ALWAYS_REQUIRED or name in ASSAY_REQUIRED
        both_absent = not _present(ours) and not _present(theirs)
        if ours == theirs and not (required and both_absent):
            continue  # what neither could read is equal unless it is required
        hard = model_against_real and name in ("driver", "device_kind")
        mismatch = Mismatch(name, group, shown(ours), shown(theirs), hard)
        (report.allowed if name in waved and not hard else report.refused).append(mismatch)
    for name in INFORM:
        if base.get(name) != head.get(name):
            report.notes.append(
                f"{name}: base {shown(base.get(name))}, head {shown(head.get(name))}"
            )
    report.notes.extend(_unknown_differences(base, head))
    report.invalid_conditions = invalid_conditions(base, head)
    return report


def _unknown_differences(base: Mapping[str, Any], head: Mapping[str, Any]) -> list[str]:
    known = set(INFORM) | IGNORED | {name for names in GROUPS.values() for name in names}
    return [
        f"{name}: base {shown(base.get(name))}, head {shown(head.get(name))} (not judged)"
        for name in sorted((set(base) | set(head)) - known)
        if base.get(name) != head.get(name)
    ]


def load_average() -> float | None:
    """Of the last minute, where the system tells."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def overload(load: Any, cpus: Any, own: int = 0) -> str | None:
    """Why this load average says that timings were disturbed; `own` tasks are the run itself."""
    if not is_number(load) or not is_number(cpus) or load <= cpus + own:
        return None
    return f"the load average of {load:.3g} was above the {cpus:g} CPUs; run on a quieter machine"


def invalid_conditions(*contexts: Mapping[str, Any]) -> list[str]:
    """Why these timings should not be trusted, whatever they say."""
    reasons: list[str] = []
    for context in contexts:
        own = str(context.get("build_type", "")).lower()
        library = str(context.get("library_build_type", "")).lower()
        if own == "debug":
            reasons.append("the benchmark was built in debug mode")
        elif library == "debug" and not own:
            reasons.append("the benchmark library was built in debug mode")
        if context.get("cpu_scaling_enabled") in (True, "true"):
            reasons.append("CPU frequency scaling is enabled")
        if context.get("scope") == "smoke":
            reasons.append("a smoke run checks the rows, it does not measure them")
        load = context.get("load_avg")
        if isinstance(load, list) and load:
            # The benchmark that wrote it may be in it with one task of its own.
            reason = overload(load[0], context.get("num_cpus"), own=1)
            reasons += [reason] if reason else []
        if context.get("sanitizers") not in (None, "", "none"):
            reasons.append(f"built with sanitizers: {context['sanitizers']}")
    return list(dict.fromkeys(reasons))

"""Small complete results of every kind, for figures and pages."""

from __future__ import annotations

from typing import Any

from assay_tools.tests.conftest import CONTEXT, rows_of, times

HOSTILE = "<script>alert('x')</script> & \"quoted\" | pipe"
FULL_CONTEXT = CONTEXT | {"commit": "0123456789abcdef", "cpu_model": "A CPU", "driver": "none"}


def bench_rows() -> list[dict[str, Any]]:
    """Two families, two backings, three sizes; one row failed, one name is hostile."""
    rows = []
    for family in ("allocate", "touch"):
        for backing, factor in (("heap", 1.0), ("slab_pool", 0.5)):
            for size in (4096, 2 << 20, 1 << 30):
                name = f"{family}/backing:{backing}/size:{size}"
                if (family, backing, size) == ("touch", "heap", 2 << 20):
                    failure = {"error_occurred": True, "error_message": f"assay: {HOSTILE}"}
                    rows += rows_of(name, [failure])
                else:
                    rows += rows_of(name, times(size % 97, n=6, factor=factor * size**0.3))
    return rows + rows_of(f"other/{HOSTILE}", times(3, n=2))


def replay() -> dict[str, Any]:
    """Two good runs, one skipped, with an unknown figure and a time below the timer."""

    def run(subject: str, factor: float) -> dict[str, Any]:
        record = {
            "count": 10, "p50_ns": 0 if factor < 1 else 40.0, "p99_ns": 400 * factor,
            "p999_ns": 9000 * factor, "max_ns": 1e6, "below_timer": factor < 1,
        }  # fmt: skip
        peak = {
            "requested_bytes": 1 << 30, "granted_bytes": None,
            "reserved_bytes": int(factor * (3 << 30)), "resident_bytes": 1 << 29,
        }  # fmt: skip
        return {
            "subject": subject, "status": "ok", "reason": "", "time_s": 0.25 * factor,
            "times_s": [0.25 * factor] * 3,
            "operations": {"allocate": record, "deallocate": record},
            "peak": peak, "internal_fragmentation": 0.031, "external_fragmentation": None,
            "failed_allocations": 0, "an_extra_key": 1,
        }  # fmt: skip

    skipped = {"subject": "other", "status": "skipped", "reason": f"install {HOSTILE}"}
    return {
        "schema": "assay.replay/1",
        "context": FULL_CONTEXT,
        "trace": {"path": "traces/a.csv", "rows": 20, "peak_live_bytes": 1 << 30},
        "options": {"touch": "none", "repeat": 3, "scale": 1},
        "timer_cost_ns": 20.0,
        "runs": [run("heap", 1.0), run("slab_pool", 0.5), skipped],
        "timeline": [{"event": i, "live_bytes": i << 20} for i in range(20)],
    }


def verify(**outcomes: str) -> dict[str, Any]:
    """One property per outcome given as name=outcome, on an allocator of ours, plus a demo."""
    chosen = outcomes or {"no_overlap": "pass", "alignment": "fail"}
    cells = [
        {
            "subject": "ours", "property": name, "outcome": outcome, "detail": HOSTILE,
            "cases": 200, "seed": 4242, "commands": ["alloc slot=0 size=64", f"free {HOSTILE}"],
            "trace": "out/ours.trace", "reproduced": True, "explanation": f"why: {HOSTILE}",
            "elapsed_ms": 1.5,
        }
        for name, outcome in chosen.items()
    ]  # fmt: skip
    first = next(iter(chosen))
    cells.append({"subject": "demo", "property": first, "outcome": "crashed", "commands": []})
    return {
        "schema": "assay.verify/1",
        "context": FULL_CONTEXT | {"kernel": "6.1"},
        "seed": 4242,
        "elapsed_s": 1.5,
        "subjects": [
            {"id": "ours", "origin": "assay", "kind": "in_process", "status": "ran"},
            {"id": "demo", "origin": "demo", "kind": "in_process", "status": "ran"},
            {"id": "absent", "origin": "foreign", "kind": "process", "status": "skipped",
             "reason": "install libabsent"},
        ],
        "properties": [{"id": name, "goal": f"goal of {name}"} for name in chosen],
        "cells": cells,
        "mutants": [{"id": "m1", "property": first, "killed": True, "detail": ""}],
    }  # fmt: skip

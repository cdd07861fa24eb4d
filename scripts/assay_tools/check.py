"""Everything CI demands, stage by stage, behind scripts/check."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from assay_tools import house_rules

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "venv" / "bin"
CPUS = os.cpu_count() or 1


@dataclass
class Stage:
    """A named check; `full` ones run only with --full."""

    name: str
    run: Callable[[], bool]
    full: bool = False


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True
    )
    return [name for name in listed.stdout.decode().split("\0") if name]


def succeeds(command: list[str]) -> bool:
    print("+", " ".join(command[:12]), "…" if len(command) > 12 else "", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def check_format() -> bool:
    sources = tracked("*.hpp", "*.cpp", "*.h", "*.c")
    return succeeds(["clang-format-19", "--dry-run", "-Werror", *sources])


def check_shell() -> bool:
    return succeeds(["shellcheck", *[f"scripts/{n}" for n in SHELL_SCRIPTS], ".ci/run"])


SHELL_SCRIPTS = ["setup", "run", "test", "check", "sanitize", "package", "gpu-check"]


def check_python() -> bool:
    config = ["--config", "scripts/pyproject.toml"]
    checks = [
        [str(PYTHON / "ruff"), "check", *config, "scripts", "sanitizer-runs/matrix"],
        [str(PYTHON / "ruff"), "format", "--check", *config, "scripts"],
        [str(PYTHON / "mypy"), "--config-file", "scripts/pyproject.toml", "scripts/assay_tools"],
    ]
    results = [succeeds(command) for command in checks]  # all of them, so that all findings show
    return all(results)


def check_house_rules() -> bool:
    findings = house_rules.findings(ROOT, tracked())
    for finding in findings:
        print(finding)
    return not findings


def check_build_and_tests() -> bool:
    return succeeds(["scripts/test", "--preset", "ci"])


ANALYZER = (
    "-*,clang-analyzer-core*,clang-analyzer-cplusplus*,-clang-analyzer-cplusplus.NewDeleteLeaks"
)


def check_lint(checks: str = "", tests: bool = False) -> bool:
    """clang-tidy on every source file (tests only on request), as the clang build compiles it."""
    if not succeeds(["cmake", "--preset", "clang"]):
        return False
    sources = tracked("core/*.cpp", "bench/*.cpp", "properties/*.cpp")
    sources = [name for name in sources if is_test(name) == tests]

    def tidy(source: str) -> tuple[str, bool, str]:
        done = subprocess.run(
            ["clang-tidy-19", "-p", "build/clang", "--quiet", f"--checks={checks}", source],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return source, done.returncode == 0, done.stdout

    with ThreadPoolExecutor(CPUS) as pool:
        results = list(pool.map(tidy, sources))
    for source, good, text in results:
        if not good:
            print(f"{source}:\n{text}")
    print(
        f"clang-tidy: {len(sources)} files, {sum(not good for _, good, _ in results)} with findings"
    )
    return all(good for _, good, _ in results)


def is_test(source: str) -> bool:
    return "tests" in Path(source).parts or source.endswith("_test.cpp")


def check_sanitizer(name: str, *more: str) -> Callable[[], bool]:
    return lambda: succeeds([str(PYTHON / "python"), "sanitizer-runs/matrix", name, *more])


def check_documented_tables() -> bool:
    command = [str(PYTHON / "python"), "-m", "assay_tools.doc_tables", "build/ci/bin/assay-verify"]
    return succeeds(command)


def check_bench_smoke() -> bool:
    return succeeds(["build/ci/bin/assay", "bench", "--smoke", "--out", "build/ci/smoke.json"])


PLANTED_ROW = "allocate_free/backing:heap/size:256"


def check_gate() -> bool:
    """The gate proves itself: on synthetic data, on equal programs, on a planted slowdown."""
    assay, programs = "build/ci/bin/assay", "build/ci/bin/assay-bench-"
    folder = ROOT / "build" / "ci" / "gate"
    judge = [assay, "gate", "ab", "--base", f"{programs}fixture", "--head"]
    equal = [*judge, f"{programs}fixture", "--out", str(folder / "equal")]
    planted = [*judge, f"{programs}planted", "--out", str(folder / "planted")]
    return (
        succeeds([assay, "gate", "selftest"])
        and succeeds(equal)
        and not succeeds(planted)
        and regressions(folder / "planted" / "gate.json") == [PLANTED_ROW]
    )


def regressions(result: Path) -> list[str]:
    rows = json.loads(result.read_text(encoding="utf-8"))["rows"]
    found = [row["name"] for row in rows if row["verdict"] == "regression"]
    print(f"regressions: {found}")
    return found


def check_fresh_seeds() -> bool:
    """ctest runs the random tests from fixed seeds; here each run draws its own."""
    programs = ["core-tests", "buffer-properties"]
    return all(succeeds([f"build/ci/bin/{p}", "--gtest_brief=1"]) for p in programs * 3)


def check_full_build_by_clang() -> bool:
    return succeeds(["scripts/test", "--preset", "clang"])


def check_long_tests() -> bool:
    """Those that ctest leaves out unless asked: after the build of "build and test (g++)"."""
    return succeeds(["ctest", "--preset", "ci", "-C", "long", "-R", "^sweep|every_rule"])


def check_package() -> bool:
    return succeeds(["scripts/package", "--test"])


STAGES = [
    Stage("format", check_format),
    Stage("shell", check_shell),
    Stage("python", check_python),
    Stage("house rules", check_house_rules),
    Stage("build and test (g++)", check_build_and_tests),
    Stage("documented tables", check_documented_tables),
    Stage("bench smoke", check_bench_smoke),
    Stage("gate self-test", check_gate),
    Stage("lint", check_lint),
    Stage("asan + ubsan", check_sanitizer("asan")),
    Stage("tsan", check_sanitizer("tsan")),
    Stage("build and test (clang)", check_full_build_by_clang, full=True),
    Stage("lint of tests", lambda: check_lint(tests=True), full=True),
    Stage("static analyzer", lambda: check_lint(ANALYZER), full=True),
    Stage("tsan, every suite", check_sanitizer("tsan", "--whole"), full=True),
    Stage("long tests", check_long_tests, full=True),
    Stage("fresh seeds", check_fresh_seeds, full=True),
    Stage("package in a bare root", check_package, full=True),
]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/check",
        description="Runs every check that CI demands and prints what each took.",
        epilog="exit: 0 all good; 1 a stage failed; 2 usage. Example: scripts/check --only lint",
    )
    parser.add_argument("--full", action="store_true", help="also the stages too long for CI")
    parser.add_argument("--only", action="append", choices=[s.name for s in STAGES], default=[])
    options = parser.parse_args(arguments)
    rows: list[tuple[str, str, float]] = []
    for stage in STAGES:
        if options.only and stage.name not in options.only:
            continue
        if stage.full and not options.full and not options.only:
            continue
        print(f"\n== {stage.name}", flush=True)
        started = time.monotonic()
        good = stage.run()
        rows.append((stage.name, "ok" if good else "FAILED", time.monotonic() - started))
    print("\nstage                       outcome   seconds")
    for name, outcome, seconds in rows:
        print(f"{name:<28}{outcome:<10}{seconds:7.1f}")
    failed = sum(outcome != "ok" for _, outcome, _ in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

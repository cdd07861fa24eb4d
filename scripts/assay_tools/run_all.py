"""The whole loop behind scripts/run: build, verify, benchmark, replay, plot, one page."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
TRACE = ROOT / "core" / "tests" / "data" / "traces" / "lm-step-a.csv.gz"
TARGETS = [
    "assay", "assay-verify", "assay-preload-child", "assay-bench", "assay-replay",
    "assay_cuda_model",
]  # fmt: skip
# Without a GPU the backings over a driver are verified on its model, as each of these drivers.
PROFILES = ("h200", "no_concurrent_managed_access", "driver_11_8")
DRIVER_SUBJECTS = (
    "managed", "pinned", "device", "device_pool", "device_virtual", "tenant_managed",
    "tenant_device",
)  # fmt: skip
MODEL_SECONDS = 8
NEED_FREE_MIB = 500

EXIT_GOOD, EXIT_BAD, EXIT_USAGE, EXIT_INTERNAL = 0, 1, 2, 70
EXIT_INCOMPLETE, EXIT_NOTHING_RAN = 4, 77
MAY_FAIL = (EXIT_GOOD, EXIT_BAD)  # a finding about an allocator is a result, not a failure
MAY_LACK_ROWS = (EXIT_GOOD, EXIT_INCOMPLETE)


@dataclass
class Stage:
    """One step of the loop: what it runs and which exit codes still let the loop go on."""

    name: str
    command: list[str]
    good: tuple[int, ...] = (EXIT_GOOD,)
    seconds: float = 0.0
    code: int | None = None


@dataclass
class Loop:
    """Runs stages one after another, writing their output to a log folder."""

    folder: Path
    stages: list[Stage] = field(default_factory=list)

    def run(self, stage: Stage) -> bool:
        """Runs a stage; its progress (stderr) stays visible, its table (stdout) is kept too."""
        self.stages.append(stage)
        print(f"== {stage.name}", flush=True)
        print("   " + " ".join(quoted(stage.command)), flush=True)
        started = time.monotonic()
        log = self.folder / f"{stage.name}.log"
        with log.open("w", encoding="utf-8") as kept:
            process = subprocess.Popen(
                stage.command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace"
            )
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(line)
                print("   " + line, end="", flush=True)
            stage.code = process.wait()
        stage.seconds = time.monotonic() - started
        if stage.code not in stage.good:
            print(
                f"run: {stage.name} failed with exit code {stage.code}; rerun it with the command "
                "above",
                file=sys.stderr,
            )
        return stage.code in stage.good


def quoted(command: Iterable[str]) -> list[str]:
    return [f"'{word}'" if " " in word else word for word in command]


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/run", add_help=False)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "latest")
    return parser.parse_args(arguments)


def verb(name: str) -> list[str]:
    return [str(BUILD / "bin" / "assay"), name]


def build(loop: Loop) -> bool:
    return loop.run(Stage("configure", ["cmake", "--preset", "release"])) and loop.run(
        Stage("build", ["cmake", "--build", "--preset", "release", "--target", *TARGETS])
    )


def measure(loop: Loop, trace: Path) -> bool:
    """Verifies, benchmarks and replays. A finding about an allocator does not stop the loop."""
    out = loop.folder
    verify = ["--time-budget", "50", "--demos", "--traces", str(out / "traces")]
    stages = [
        Stage("verify", [*verb("verify"), *verify, "--out", str(out / "verify.json")], MAY_FAIL),
        Stage("bench", [*verb("bench"), "--out", str(out / "bench.json")], MAY_LACK_ROWS),
        Stage("replay", [*verb("replay"), str(trace), "--out", str(out / "replay.json")], MAY_FAIL),
    ]
    return all(loop.run(stage) for stage in stages)


def verify_on_model(loop: Loop) -> bool:
    """Where no GPU is: the same properties, asked of the model. Nothing is timed on it."""
    if load(loop.folder / "verify.json")["context"].get("driver") == "driver":
        return True
    subjects = [word for subject in DRIVER_SUBJECTS for word in ("--subject", subject)]
    limits = ["--time-budget", str(MODEL_SECONDS), "--traces", str(loop.folder / "traces")]
    return all(
        loop.run(
            Stage(
                f"model-{profile}",
                [*verb("verify"), "--driver", "model", "--profile", profile, *subjects, *limits,
                 "--out", str(model_file(loop.folder, profile))],
                MAY_FAIL,
            )
        )
        for profile in PROFILES
    )  # fmt: skip


def model_file(folder: Path, profile: str) -> Path:
    return folder / f"model-{profile}.json"


def model_files(folder: Path) -> list[Path]:
    return [path for path in (model_file(folder, p) for p in PROFILES) if path.is_file()]


def present(loop: Loop) -> bool:
    out = loop.folder
    bench, replay, verify = (str(out / f"{n}.json") for n in ("bench", "replay", "verify"))
    plots, page = str(out / "plots"), str(out / "index.html")
    inputs = ["--verify", verify, "--bench", bench, "--replay", replay, "--plots", plots]
    inputs += [word for path in model_files(out) for word in ("--model", str(path))]
    return loop.run(
        Stage("plot", [*verb("plot"), bench, "--replay", replay, "--out", plots])
    ) and loop.run(Stage("report", [*verb("report"), *inputs, "--out", page]))


def load(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


@dataclass
class Verdict:
    """What the three result files say, in the words of the summary."""

    lines: list[str]
    own_failures: list[str]


def judge(folder: Path) -> Verdict:
    verify, bench, replay = (load(folder / f"{n}.json") for n in ("verify", "bench", "replay"))
    origins = {subject["id"]: subject["origin"] for subject in verify["subjects"]}
    cells = [c for c in verify["cells"] if origins.get(c["subject"]) != "demo"]
    bad = [c for c in cells if c["outcome"] in ("fail", "crashed", "timed_out")]
    own = [
        f"{c['subject']} fails {c['property']}" for c in bad if origins.get(c["subject"]) == "assay"
    ]
    foreign = [f"{c['subject']}/{c['property']}" for c in bad if origins[c["subject"]] != "assay"]
    skipped = sorted(s["id"] for s in verify["subjects"] if s["status"] == "skipped")
    on_model = [load(path) for path in model_files(folder)]
    own += [
        f"{c['subject']} fails {c['property']} on the model {m['context'].get('driver_profile')}"
        for m in on_model
        for c in m["cells"]
        if c["outcome"] in ("fail", "crashed", "timed_out")
    ]
    rows = bench["benchmarks"]
    errors = [row["name"] for row in rows if row.get("error_occurred") and not is_skip(row)]
    own += [f"{name}: error row" for name in errors if is_own(name, origins)]
    runs = replay["runs"]
    own += [
        f"{run['subject']}: replay {run['status']}: {run['reason']}"
        for run in runs
        if run["status"] not in ("ok", "skipped") and origins.get(run["subject"]) == "assay"
    ]
    done = sorted((r for r in runs if r["status"] == "ok"), key=lambda r: float(r["time_s"]))
    facts = replay["trace"]
    passed = sum(c["outcome"] == "pass" for c in cells)
    lines = [
        f"verify   {passed} of {len(cells)} cells pass, {len(bad)} fail; findings about others: "
        + (", ".join(foreign) or "none"),
        f"driver   {driver_line(verify, on_model)}",
        f"skipped  {', '.join(skipped) or 'no allocator'}",
        f"bench    {len(rows)} rows, {len(errors)} of them error rows",
        f"replay   {facts['rows']} rows, peak live {facts['peak_live_bytes'] / 2**20:.0f} MiB, "
        f"{facts['unknown_frees']} frees of unknown blocks",
        "fastest  "
        + (", ".join(f"{r['subject']} {1000 * r['time_s']:.1f} ms" for r in done[:3]) or "none"),
        "ours     " + ("; ".join(own) or "no failure of an allocator of assay's own"),
    ]
    return Verdict(lines, own)


def is_skip(row: dict[str, Any]) -> bool:
    return str(row.get("error_message", "")).startswith("assay: skipped:")


def driver_line(verify: dict[str, Any], on_model: list[dict[str, Any]]) -> str:
    """What the backings over a CUDA driver ran on."""
    context = verify["context"]
    if context.get("driver") == "driver":
        return f"{context.get('device_name')}, driver {context.get('driver_version')}"
    passed = [
        f"{m['context'].get('driver_profile')} "
        f"{sum(c['outcome'] == 'pass' for c in m['cells'])} of {len(m['cells'])} cells"
        for m in on_model
    ]
    return "no GPU; verified on the model (not a GPU): " + (", ".join(passed) or "nothing")


def is_own(name: str, origins: dict[str, str]) -> bool:
    backing = next((p[8:] for p in name.split("/") if p.startswith("backing:")), "")
    return origins.get(backing, "assay") == "assay"


def name_final_folder(fresh: Path, target: Path) -> None:
    """Paths in the results name the folder where they will lie, not the one they are made in."""
    for result in (path for path in fresh.iterdir() if path.suffix in (".json", ".log", ".html")):
        text = result.read_text(encoding="utf-8", errors="surrogateescape")
        result.write_text(
            text.replace(str(fresh), str(target)), encoding="utf-8", errors="surrogateescape"
        )


def replace_folder(fresh: Path, target: Path) -> None:
    """Puts the finished folder in place of the old one; an unfinished run never gets here."""
    old = target.with_name(target.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def summary(loop: Loop, verdict: Verdict, target: Path, seconds: float) -> None:
    took = ", ".join(f"{s.name} {s.seconds:.0f} s" for s in loop.stages if s.seconds >= 0.5)
    print("\n== summary")
    for line in verdict.lines:
        print(line)
    print(f"time     {seconds:.0f} s: {took}")
    print(f"logs     {target}")
    print(f"page     {target / 'index.html'}")
    print("again    scripts/run   tests: scripts/test   gate: build/release/bin/assay gate --help")


def exit_code_of(loop: Loop) -> int:
    """What the stage that stopped the loop means for scripts/run."""
    code = loop.stages[-1].code
    return code if code in (EXIT_BAD, EXIT_USAGE, EXIT_NOTHING_RAN) else EXIT_INTERNAL


def run(options: argparse.Namespace) -> int:
    target: Path = options.out
    if not options.trace.is_file():
        print(f"run: --trace: no such file: {options.trace}", file=sys.stderr)
        return EXIT_USAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    free_mib = shutil.disk_usage(target.parent).free // 2**20
    if free_mib < NEED_FREE_MIB:
        print(
            f"run: {free_mib} MiB free where {target.parent} is; a run needs {NEED_FREE_MIB} MiB. "
            "Free some space and rerun.",
            file=sys.stderr,
        )
        return EXIT_USAGE
    started = time.monotonic()
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    fresh.chmod(0o755)
    try:
        loop = Loop(fresh)
        if not (build(loop) and measure(loop, options.trace) and verify_on_model(loop)):
            return exit_code_of(loop)
        name_final_folder(fresh, target)
        if not present(loop):
            return exit_code_of(loop)
        name_final_folder(fresh, target)  # the page, and the logs that came since
        verdict = judge(fresh)
        replace_folder(fresh, target)
        summary(loop, verdict, target, time.monotonic() - started)
        return EXIT_BAD if verdict.own_failures else EXIT_GOOD
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    os.chdir(ROOT)
    try:
        return run(options)
    except OSError as error:
        print(f"run: {error.filename or 'file system'}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("run: interrupted; nothing was replaced", file=sys.stderr)
        return 130
    except Exception as error:  # every uncaught exception is an internal error, never "failed"
        print(f"run: internal error: {error!r}", file=sys.stderr)
        return EXIT_INTERNAL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

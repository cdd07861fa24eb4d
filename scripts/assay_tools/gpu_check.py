"""The stages behind scripts/gpu-check. Standard library only: a GPU host may have no packages."""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from assay_tools.errors import ToolError
from assay_tools.files import write_atomic
from assay_tools.gpu_check_host import EXIT_NOTHING_RAN, Host, judge, load, read_text, run, stage
from assay_tools.gpu_check_sanitizer import sanitizer

ROOT = Path(__file__).resolve().parents[2]
EXIT_GOOD, EXIT_BAD, EXIT_USAGE, EXIT_INTERNAL = 0, 1, 2, 70
PROGRAMS = ["assay-doctor", "assay-conformance", "assay-probe", "assay-verify", "assay-bench"]
SUBJECTS = ["managed", "pinned", "device"]

DESCRIPTION = """Checks assay on a GPU host in one call of at most six minutes: facts, driver
conformance and its difference from the model, properties of the device backings, probes,
compute-sanitizer, and a short benchmark. A stage that fails does not stop the next one.

Programs are those beside this script (an unpacked scripts/package archive), else the newest of
build/package and build/release, else they are built."""
EPILOG = """exit: 0 conformance and properties hold; 1 one does not; 2 usage; 70 internal error;
77 there is no GPU here. Writes into DIR: summary.txt, check.json, conformance.json, probe.json,
verify.json, bench.json, bench.csv, log.txt.
Example: scripts/gpu-check --out results"""


def gpu_count() -> int:
    """Devices that the real driver shows, asked in a child: a broken driver may hang or crash."""
    question = (
        "import ctypes; d = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(0);"
        "print(n.value if d.cuInit(0) == 0 and d.cuDeviceGetCount(ctypes.byref(n)) == 0 else 0)"
    )
    try:
        asked = subprocess.run(
            [sys.executable, "-c", question],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return int(asked.stdout) if asked.stdout.strip().isdigit() else 0


def facts(host: Host) -> dict[str, Any]:
    with stage(host, "facts") as done:
        known: dict[str, Any] = {
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "uvm_disable_hmm": read_text("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
            "driver_proc": read_text("/proc/driver/nvidia/version").splitlines()[:1],
        }
        query = "name,driver_version,memory.total,memory.free,pcie.link.gen.current,"
        query += "pcie.link.width.current,clocks.sm,clocks.mem,mig.mode.current,compute_mode"
        if shutil.which("nvidia-smi"):
            ran = run(host, ["nvidia-smi", f"--query-gpu={query}", "--format=csv"], 10)
            known["nvidia_smi"] = ran.text.strip().splitlines()
            done.lines += known["nvidia_smi"][1:]
        else:
            done.why = "no nvidia-smi here"
        return known
    return {}


def attributes(host: Host) -> dict[str, Any]:
    with stage(host, "attributes") as done:
        ran = run(host, [host.program("assay-doctor"), "--json"], 15)
        if not judge(done, ran):
            return {}
        said: dict[str, Any] = json.loads(ran.text[ran.text.index("{") :])
        driver = said.get("driver", {})
        if driver.get("kind") != ("model" if host.rehearsal else "driver"):
            done.outcome, done.why = "FAILED", f"the driver here is a {driver.get('kind')}"
        done.lines.append(f"driver {driver.get('kind')} {driver.get('version')}")
        for device in said.get("devices", []):
            done.lines.append(f"device {device.get('name')}: regime {device.get('regime')}")
        return said
    return {}


def conformance(host: Host) -> None:
    """The driver's outcomes, the model's, and where they differ."""
    mine, models = host.out / "conformance-driver.json", host.out / "conformance-model.json"
    program = host.program("assay-conformance")
    with stage(host, "conformance") as done:
        ran = run(host, [program, "--jobs", "8", "--out", str(mine)], 75)
        judge(done, ran)
        done.lines += ran.text.strip().splitlines()[-1:]
    with stage(host, "model") as done:
        on_model = ["--driver", str(host.model), "--profile", "h200", "--jobs", "8"]
        judge(done, run(host, [program, *on_model, "--out", str(models)], 60))
    with stage(host, "model and driver compared") as done:
        ran = run(host, [program, "--diff", str(models), str(mine)], 10)
        judge(done, ran, (0, 1))
        done.lines += ran.text.strip().splitlines()[-12:]
    merged = {path.stem[12:]: load(path) for path in (mine, models) if path.is_file()}
    write_json(host.out / "conformance.json", merged)
    for path in (mine, models):
        path.unlink(missing_ok=True)


def properties(host: Host) -> None:
    with stage(host, "sequences") as done:
        program = host.program("assay-conformance")
        command = [program, "--sequences", "200", "--seed", "1", "--time-budget", "12"]
        ran = run(host, command, 25)
        judge(done, ran)
        done.lines += ran.text.strip().splitlines()[-1:]
    with stage(host, "properties") as done:
        chosen = [word for name in SUBJECTS for word in ("--subject", name)]
        command = [host.program("assay-verify"), *chosen, "--time-budget", "25"]
        traces = ["--traces", str(host.out / "traces")]
        ran = run(host, [*command, *traces, "--out", str(host.out / "verify.json")], 40)
        judge(done, ran)
        cells = load(host.out / "verify.json")["cells"]
        counts = {o: sum(c["outcome"] == o for c in cells) for o in {c["outcome"] for c in cells}}
        done.lines.append(", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))


def probes(host: Host) -> None:
    """What the driver answers to the open questions, and where the model answers otherwise."""
    mine, models = host.out / "probe.json", host.out / "probe-model.json"
    program = host.program("assay-probe")
    with stage(host, "probes") as done:
        judge(done, run(host, [program, "--out", str(mine)], 30))
        for probe in load(mine)["probes"]:
            spelled = [f"{a['step']}: {a['spelled']}" for a in probe["answers"]]
            said = "; ".join(spelled[:3]) or f"{probe['outcome']}: {probe['detail']}"
            done.lines.append(f"{probe['id']:<4} {said}"[:110])
    with stage(host, "probes compared") as done:
        on_model = ["--driver", str(host.model), "--profile", "h200"]
        judge(done, run(host, [program, *on_model, "--out", str(models)], 20))
        differ, same = probe_differences(load(models)["probes"], load(mine)["probes"])
        done.lines.append(f"{same} answers are the model's, {len(differ)} are not")
        done.lines += differ[:12]
    models.unlink(missing_ok=True)


def probe_differences(
    models: list[dict[str, Any]], mine: list[dict[str, Any]]
) -> tuple[list[str], int]:
    """Steps that both took and answered differently, in words, and how many they answered alike.
    Sizes and times are a run's own affair, as they are where conformance is compared."""

    def answers(probes: list[dict[str, Any]]) -> dict[str, str]:
        return {
            f"{probe['id']} {one['step']}": str(one["spelled"])
            for probe in probes
            for one in probe.get("answers", [])
            if one["kind"] != "value"
        }

    said, seen = answers(models), answers(mine)
    both = [step for step in seen if step in said]
    differ = [f"{s}: {seen[s]}, the model {said[s]}" for s in both if seen[s] != said[s]]
    return differ, len(both) - len(differ)


def benchmark(host: Host) -> None:
    with stage(host, "benchmark") as done:
        rows = f"--benchmark_filter=backing:({'|'.join(SUBJECTS)})(/|$)"
        out = host.out / "bench.json"
        ran = run(host, [host.program("assay-bench"), rows, "--out", str(out)], host.left_s() - 15)
        if host.rehearsal:
            done.outcome, done.why = "skipped", "no rate of a model is ever shown"
            return
        judge(done, ran)
        done.lines += medians(load(out)["benchmarks"], host.out / "bench.csv")


def medians(rows: list[dict[str, Any]], table: Path) -> list[str]:
    """One line for each row, and all of them as CSV."""
    times: dict[str, list[float]] = {}
    for row in rows:
        if row.get("run_type") != "aggregate" and not row.get("error_occurred"):
            name = row.get("run_name", row["name"])
            times.setdefault(name, []).append(float(row["real_time"]))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "samples", "median_ns", "min_ns", "max_ns"])
        for name, all_of_it in sorted(times.items()):
            middle = statistics.median(all_of_it)
            writer.writerow([name, len(all_of_it), middle, min(all_of_it), max(all_of_it)])
    return [f"{name}: {statistics.median(t):.0f} ns" for name, t in sorted(times.items())][:20]


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=1) + "\n")


def find_programs(given: Path | None) -> Path | None:
    """The folder of built programs, or none if they must be built first."""
    folders = [ROOT / "bin", ROOT / "build" / "package" / "bin", ROOT / "build" / "release" / "bin"]
    for folder in [given] if given else folders:
        if all((folder / name).is_file() for name in PROGRAMS):
            return folder
    return None


def build(host_out: Path) -> Path | None:
    """Builds the programs in place, as a last resort: the time comes out of the check's."""
    if not shutil.which("cmake") or not (ROOT / "CMakePresets.json").is_file():
        return None
    print("== build (no programs beside this script)", flush=True)
    with (host_out / "log.txt").open("a", encoding="utf-8") as log:
        for command in (
            ["cmake", "--preset", "release"],
            ["cmake", "--build", "--preset", "release", "-j", str(os.cpu_count() or 1)],
        ):
            done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False)
            if done.returncode != 0:
                return None
    return find_programs(ROOT / "build" / "release" / "bin")


def summary(host: Host, known: dict[str, Any]) -> int:
    kind = "MODEL (a rehearsal: says nothing of a GPU)" if host.rehearsal else "driver"
    lines = [f"assay gpu-check on the {kind}, kernel {known.get('kernel', '?')}"]
    for done in host.stages:
        lines.append(f"{done.name:<26}{done.outcome:<10}{done.seconds:6.1f} s  {done.why}".rstrip())
        lines += [f"    {line}" for line in done.lines]
    decisive = {"attributes", "conformance", "sequences", "properties"}
    bad = [s.name for s in host.stages if s.name in decisive and s.outcome != "ok"]
    lines.append(f"verdict: {'FAILED: ' + ', '.join(bad) if bad else 'good'}")
    text = "\n".join([*lines[:59], lines[-1]] if len(lines) > 60 else lines) + "\n"
    (host.out / "summary.txt").write_text(text, encoding="utf-8")
    print("\n" + text, end="")
    return EXIT_BAD if bad else EXIT_GOOD


RESULTS = ["summary.txt", "check.json", "conformance.json", "probe.json", "verify.json"]
RESULTS += ["bench.json", "bench.csv", "log.txt", "conformance-driver.json"]
RESULTS += ["conformance-model.json", "probe-model.json"]


def clear(out: Path) -> None:
    """Takes away what an earlier check left, so that no old figure stands beside a new one."""
    out.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / "traces", ignore_errors=True)


def check(host: Host) -> int:
    known = facts(host)
    said = attributes(host)
    if host.stages[-1].why.startswith("the driver here is"):
        return summary(host, known)
    conformance(host)
    properties(host)
    probes(host)
    sanitizer(host)
    benchmark(host)
    code = summary(host, known)
    context = {"driver": "model" if host.rehearsal else "driver", "facts": known, "doctor": said}
    stages = [asdict(done) for done in host.stages]
    write_json(
        host.out / "check.json", {"schema": "assay.gpu-check/1", **context, "stages": stages}
    )
    return code


def model_beside(programs: Path) -> Path:
    return programs.parent / "lib" / "libassay_cuda_model.so"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = ROOT / "reports" / "gpu-check"
    parser.add_argument("--out", type=Path, default=default, metavar="DIR", help="results go here")
    parser.add_argument("--programs", type=Path, metavar="DIR", help="use the programs in DIR")
    parser.add_argument(
        "--rehearse", action="store_true", help="run on the driver model, without a GPU"
    )
    return parser.parse_args(arguments)


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, interrupt)
    if not options.rehearse and gpu_count() == 0:
        print(
            "gpu-check: no GPU here (libcuda.so.1 shows no device); --rehearse runs on the model",
            file=sys.stderr,
        )
        return EXIT_NOTHING_RAN
    started = time.monotonic()
    try:
        programs = find_programs(options.programs)
        if programs is not None or options.programs is None:
            clear(options.out)
        if programs is None and options.programs is None:
            programs = build(options.out)
        if programs is None:
            wanted = options.programs or ROOT
            print(
                f"gpu-check: not all of {', '.join(PROGRAMS)} are in {wanted}; unpack an "
                "archive of scripts/package, or run scripts/setup and build",
                file=sys.stderr,
            )
            return EXIT_USAGE
        host = Host(options.out, programs, model_beside(programs), options.rehearse, started)
        return check(host)
    except OSError as error:
        print(f"gpu-check: {error.filename or options.out}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    except ToolError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("gpu-check: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

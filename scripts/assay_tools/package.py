"""The archive behind scripts/package: built, laid out, stripped, checked, packed."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "package"
SIZE_MAX_MIB = 50
GLIBC_MAX = (2, 36)
# What a program may ask of the machine that it is carried to: the C library, nothing else.
SYSTEM = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
SCRIPTS = ["gpu-check", "requirements.txt"]
TEXTS = ["README.md", "LICENSE", "CHANGELOG.md"]
TOOLS_CONF = "python = python3\ntools = ../scripts\n"


class PackageError(Exception):
    """The archive cannot be made, or would not run elsewhere."""


def run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise PackageError(f"{' '.join(command[:6])} ended with exit code {done.returncode}")
    return done.stdout


def build() -> None:
    jobs = str(os.cpu_count() or 1)
    target = ["--target", "assay_carried", "-j", jobs]
    for command in (
        ["cmake", "--preset", "package"],
        ["cmake", "--build", "--preset", "package", *target],
    ):
        print("package:", " ".join(command), flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            raise PackageError("the build failed; its message is above")


def lay_out(folder: Path) -> None:
    """Puts everything in place below `folder`."""
    run(["cmake", "--install", str(BUILD), "--component", "carried", "--prefix", str(folder)])
    for binary in [*(folder / "bin").iterdir(), *(folder / "lib").glob("*.so*")]:
        run(["strip", "--strip-unneeded", str(binary)])
    run(["strip", "--strip-debug", *map(str, (folder / "lib").glob("*.a"))])
    (folder / "bin" / "assay-tools.conf").write_text(TOOLS_CONF, encoding="utf-8")
    tools = folder / "scripts" / "assay_tools"
    ignored = shutil.ignore_patterns("__pycache__", "tests")
    shutil.copytree(ROOT / "scripts" / "assay_tools", tools, ignore=ignored)
    for name in SCRIPTS:
        shutil.copy2(ROOT / "scripts" / name, folder / "scripts" / name)
    for name in TEXTS:
        shutil.copy2(ROOT / name, folder / name)


def foreign_needs(dynamic: str, carried: set[str]) -> list[str]:
    """What `objdump -p` says a binary needs beyond the C library and what is carried."""
    needed = re.findall(r"^ +NEEDED +(\S+)", dynamic, re.MULTILINE)
    return sorted(set(needed) - SYSTEM - carried)


def too_new_glibc(dynamic: str) -> list[str]:
    """Versions of the C library that it asks for and that are newer than promised."""
    versions = set(re.findall(r"\bGLIBC_(\d+)\.(\d+)", dynamic))
    return sorted(f"{a}.{b}" for a, b in versions if (int(a), int(b)) > GLIBC_MAX)


def check_binaries(folder: Path) -> None:
    carried = {path.name for path in (folder / "lib").glob("*.so*")}
    for binary in [*(folder / "bin").iterdir(), *(folder / "lib").glob("*.so*")]:
        if binary.suffix == ".conf":
            continue
        dynamic = run(["objdump", "-p", str(binary)])
        if found := foreign_needs(dynamic, carried):
            raise PackageError(f"{binary.name} needs {', '.join(found)}, which is not carried")
        if newer := too_new_glibc(dynamic):
            raise PackageError(f"{binary.name} needs glibc {', '.join(newer)}; 2.36 is promised")


def pack(folder: Path, archive: Path) -> None:
    """Writes the archive beside its final name first, so that no half one is ever found."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    half = archive.with_suffix(".part")

    def as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    try:
        with tarfile.open(half, "w:gz") as tar:
            tar.add(folder, arcname=folder.name, filter=as_root)
        size_mib = half.stat().st_size / 2**20
        if size_mib >= SIZE_MAX_MIB:
            raise PackageError(f"{archive} has {size_mib:.1f} MiB; {SIZE_MAX_MIB} MiB is the limit")
        half.replace(archive)
    finally:
        half.unlink(missing_ok=True)
    print(f"package: {archive} ({size_mib:.1f} MiB)")


def in_bare_root(root: Path, program: str, *arguments: str, env: dict[str, str]) -> int:
    """Runs a carried program in a root directory of its own; returns the exit code."""
    environment = {"PATH": "/usr/bin", "HOME": "/", **env}
    command = [f"/assay/bin/{program}", *arguments]
    print("package: in the bare root:", " ".join(command), flush=True)

    def enter() -> None:
        os.chroot(root)
        os.chdir("/")

    done = subprocess.run(
        command,
        env=environment,
        check=False,
        preexec_fn=enter,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    print(f"package: exit code {done.returncode}", flush=True)
    if done.returncode not in (0, 4):
        print("\n".join(done.stdout.splitlines()[-20:]))
    return done.returncode


def test(archive: Path) -> None:
    """Runs it where there is the C library and nothing else: no packages, no shell, no Python."""
    if os.geteuid() != 0:
        raise PackageError("--test changes the root directory, which needs root")
    with tempfile.TemporaryDirectory(prefix="assay-bare-") as name:
        root = Path(name)
        for library in sorted(SYSTEM):
            found = run(["gcc", f"-print-file-name={library}"]).strip()
            for folder in ("lib64", "lib/x86_64-linux-gnu"):
                (root / folder).mkdir(parents=True, exist_ok=True)
                shutil.copy2(Path(found).resolve(), root / folder / library)
        for folder in ("proc", "tmp", "dev/shm", "usr/bin"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for device in ("null", "urandom"):
            shutil.copyfile("/dev/null", root / "dev" / device)
        with tarfile.open(archive) as tar:
            tar.extractall(root)
        (root / archive.name.removesuffix(".tar.gz")).rename(root / "assay")
        subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
        try:
            failed = [words for words in BARE_RUNS if not bare_run_is_good(root, words)]
        finally:
            subprocess.run(["umount", str(root / "proc")], check=True)
        if failed:
            raise PackageError(f"in the bare root, {len(failed)} runs failed: {failed[0]}")
    print(f"package: {len(BARE_RUNS)} runs in a bare root directory, all good")


MODEL = {"ASSAY_CUDA_DRIVER": "/assay/lib/libassay_cuda_model.so"}
# program, arguments, environment, exit codes that are good
BareRun = tuple[str, list[str], dict[str, str], tuple[int, ...]]
BARE_RUNS: list[BareRun] = [
    ("assay", ["--version"], {}, (0,)),
    ("assay", ["subjects"], {}, (0,)),
    ("assay", ["verify", "--subject", "heap", "--cases", "20"], {}, (0,)),
    ("assay", ["bench", "--smoke", "--out", "/tmp/bench.json"], {}, (0, 4)),
    ("assay", ["doctor"], {}, (0,)),
    ("assay", ["verify", "--subject", "device", "--cases", "5"], MODEL, (0,)),
    ("assay-conformance", [], MODEL, (0,)),
    ("assay-driver-sweep", ["--scenario", "growth"], MODEL, (0,)),
    ("assay-probe", ["--only", "P1", "--out", "/tmp/probe.json"], MODEL, (0,)),
]


def bare_run_is_good(root: Path, words: BareRun) -> bool:
    program, arguments, environment, good = words
    return in_bare_root(root, program, *arguments, env=environment) in good


def version() -> str:
    found = re.search(r"project\(assay VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    if found is None:
        raise PackageError("CMakeLists.txt names no version")
    return found[1]


def make(options: argparse.Namespace) -> None:
    if os.uname().machine != "x86_64":
        raise PackageError(f"archives are made on x86_64, not on {os.uname().machine}")
    build()
    name = f"assay-{version()}-linux-x86_64"
    archive = Path(options.out) / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory(prefix=".assay-package-", dir=ROOT / "build") as scratch:
        folder = Path(scratch) / name
        lay_out(folder)
        check_binaries(folder)
        pack(folder, archive)
    if options.test:
        test(archive)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/package", add_help=False)
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--out", default=str(ROOT / "build"))
    try:
        make(parser.parse_args(arguments))
    except (PackageError, OSError) as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Command line of `assay gate`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from assay_tools import strict_json
from assay_tools.arguments import Parser, emit, non_negative_int, positive_float, positive_int
from assay_tools.errors import Exit, ToolError
from assay_tools.files import prepare_directory, prepare_file
from assay_tools.gate import outputs
from assay_tools.gate.options import GatedCounter, Options, load_renames
from assay_tools.gate.rule import Rule
from assay_tools.gate.table import Result

EXIT_CODES = """exit codes:
  0   no confirmed regression
  1   at least one regression, confirmed on fresh data
  2   a bad flag, unreadable input, unwritable output, or nothing was compared
  3   the two sides differ in build, machine, suite or device
  4   rows are missing, failed, invalid, or none could be judged
  5   inconclusive, or run under invalid conditions (--strict)
  70  a defect in assay
  77  the Python environment is not installed
  129, 130, 143  stopped by a hang-up, Ctrl-C or TERM; no verdict"""
SELFTEST_CODES = """exit codes:
  0   every figure meets its target
  1   a figure misses its target
  2   a bad flag
  70  a defect in assay
  77  the Python environment is not installed"""


def _epilog(example: str, codes: str = EXIT_CODES) -> str:
    return f"example:\n  {example}\n\n{codes}"


EXAMPLE_AB = "assay gate ab --base build-main/bench --head build-pr/bench --out gate"
EXAMPLE_COMPARE = "assay gate compare main.json pr.json --floor 15"


def _add_common(parser: argparse.ArgumentParser, seed: str) -> None:
    parser.add_argument(
        "--strict", action="store_true", help="inconclusive rows and invalid conditions exit 5"
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="NAME",
        help="this benchmark must have run (* is a wildcard)",
    )
    parser.add_argument(
        "--allow-missing",
        action="append",
        default=[],
        metavar="NAME",
        help="this benchmark may be gone from head (* is a wildcard)",
    )
    parser.add_argument(
        "--rename-map", type=Path, metavar="FILE", help="JSON object: old name -> new name"
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME=lower|higher[,LIMIT]",
        help="gate this counter too",
    )
    parser.add_argument(
        "--min-overlap",
        type=_percentage,
        default=0.0,
        metavar="PERCENT",
        help="percentage of base rows that head must have (default: 0)",
    )
    parser.add_argument(
        "--allow-mismatch",
        action="append",
        default=[],
        metavar="FIELD",
        help="report in spite of this metadata difference; never exits 1",
    )
    parser.add_argument(
        "--seed", type=non_negative_int, help=f"seed of orders and intervals (default: {seed})"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write gate.json, gate.md and gate.junit.xml there"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the text for a pull request there"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML there")
    parser.add_argument("--json", action="store_true", help="print gate.json instead of text")


def _percentage(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return value / 100


def _floor(text: str) -> float:
    value = float(text)
    if not 5 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 5 to 1000")
    return 1 + value / 100


def build_parser() -> Parser:
    """All sub-commands of `assay gate`."""
    parser = Parser(
        prog="assay gate",
        description="Fail on confirmed slowdowns only.",
        epilog=_epilog(EXAMPLE_AB),
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="ab|compare|selftest")
    ab = verbs.add_parser(
        "ab",
        help="measure two binaries, interleaved",
        description="Measure two Google Benchmark binaries, interleaved, and judge head.",
        epilog=_epilog(EXAMPLE_AB),
    )
    ab.add_argument(
        "--base", type=Path, required=True, metavar="BIN", help="the benchmark before the change"
    )
    ab.add_argument(
        "--head", type=Path, required=True, metavar="BIN", help="the benchmark after the change"
    )
    ab.add_argument(
        "--filter", default="", metavar="RE", help="only matching benchmarks (default: all)"
    )
    ab.add_argument(
        "--min-time",
        type=positive_float,
        default=0.003,
        metavar="S",
        help="seconds that a process measures a row",
    )
    ab.add_argument(
        "--pairs", type=positive_int, default=10, help="repetitions a side of the screening run"
    )
    ab.add_argument(
        "--confirm-pairs",
        type=positive_int,
        default=20,
        help="fresh repetitions a side for suspects",
    )
    ab.add_argument(
        "--time-budget",
        type=positive_float,
        metavar="S",
        help="stop adding pairs after this long (default: no limit)",
    )
    ab.add_argument(
        "--timeout",
        type=positive_float,
        default=120.0,
        metavar="S",
        help="seconds one process may take",
    )
    ab.add_argument(
        "--isolation",
        choices=("process", "suite"),
        default="process",
        help="a process per benchmark, or per pass over all of them",
    )
    _add_common(ab, "random, recorded")
    compare = verbs.add_parser(
        "compare",
        help="judge stored result files",
        description="Judge Google Benchmark JSON files that were measured elsewhere.",
        epilog=_epilog(EXAMPLE_COMPARE),
    )
    compare.add_argument("files", nargs="*", metavar="BASE.json HEAD.json")
    compare.add_argument(
        "--base",
        action="append",
        default=[],
        metavar="FILE[,FILE]",
        help="files of base; may be repeated",
    )
    compare.add_argument(
        "--head",
        action="append",
        default=[],
        metavar="FILE[,FILE]",
        help="files of head; may be repeated",
    )
    compare.add_argument(
        "--floor",
        type=_floor,
        metavar="PERCENT",
        help="smallest effect that counts when data was not interleaved (default: 10 or 30, "
        "by how near the two were measured)",
    )
    _add_common(compare, "1")
    selftest = verbs.add_parser(
        "selftest",
        help="false-alarm and power figures of the gate itself",
        description="Measure the gate: false alarms on unchanged code, slowdowns found.",
        epilog=_epilog("assay gate selftest --skip-injected", SELFTEST_CODES),
    )
    selftest.add_argument("--runs", type=positive_int, default=2000, help="synthetic A/A runs")
    selftest.add_argument(
        "--seed", type=non_negative_int, default=20240607, help="seed of the synthetic figures"
    )
    selftest.add_argument(
        "--skip-injected", action="store_true", help="only the synthetic figures, no processes"
    )
    return parser


def _options(arguments: argparse.Namespace, seed: int) -> Options:
    return Options(
        seed=seed,
        strict=arguments.strict,
        require=tuple(arguments.require),
        allow_missing=tuple(arguments.allow_missing),
        allow_mismatch=tuple(arguments.allow_mismatch),
        renames=load_renames(arguments.rename_map),
        counters=tuple(GatedCounter.parse(text) for text in arguments.metric),
        min_overlap=arguments.min_overlap,
    )


def _prepare_outputs(arguments: argparse.Namespace) -> None:
    """Refuse an unwritable target before measuring; an old verdict must not outlive this run."""
    if arguments.out is not None:
        prepare_directory(arguments.out)
        for name in ("gate.json", "gate.md", "gate.junit.xml"):  # base.json may be an input
            (arguments.out / name).unlink(missing_ok=True)
    for path in (arguments.markdown, arguments.junit):
        if path is not None:
            prepare_file(path)


def _finish(result: Result, arguments: argparse.Namespace) -> Exit:
    outputs.write_all(result, arguments.out, arguments.markdown, arguments.junit)
    if arguments.json:
        emit(strict_json.dumps(outputs.as_dict(result)))
    else:
        emit(outputs.text(result))
    return result.exit_code()


def _paths(texts: Sequence[str]) -> list[Path]:
    return [Path(part) for text in texts for part in text.split(",") if part]


def _compare(arguments: argparse.Namespace) -> Exit:
    from assay_tools.gate.compare import run_compare

    base, head = _paths(arguments.base), _paths(arguments.head)
    if arguments.files:
        if base or head or len(arguments.files) != 2:
            raise ToolError("give BASE.json HEAD.json, or --base FILE --head FILE, not a mixture")
        base, head = _paths(arguments.files[:1]), _paths(arguments.files[1:])
    if not base or not head:
        raise ToolError("give BASE.json HEAD.json, or --base FILE --head FILE")
    _prepare_outputs(arguments)
    options = _options(arguments, 1 if arguments.seed is None else arguments.seed)
    return _finish(run_compare(base, head, options, Rule(), arguments.floor), arguments)


def _ab(arguments: argparse.Namespace) -> Exit:
    from assay_tools.gate.ab import AbRequest, run_ab

    _prepare_outputs(arguments)
    seed = int.from_bytes(os.urandom(4), "big") if arguments.seed is None else arguments.seed
    request = AbRequest(
        base=arguments.base,
        head=arguments.head,
        filter=arguments.filter,
        min_time_s=arguments.min_time,
        pairs=arguments.pairs,
        confirm_pairs=arguments.confirm_pairs,
        time_budget_s=arguments.time_budget,
        timeout_s=arguments.timeout,
        isolation=arguments.isolation,
        out=arguments.out,
    )
    return _finish(run_ab(request, _options(arguments, seed), Rule()), arguments)


def main(argv: Sequence[str]) -> Exit:
    """Run one sub-command."""
    arguments = build_parser().parse_args(argv)
    if arguments.verb == "compare":
        return _compare(arguments)
    if arguments.verb == "ab":
        return _ab(arguments)
    from assay_tools.gate.selftest import run_selftest

    return run_selftest(arguments.runs, arguments.seed, not arguments.skip_injected, sys.stdout)

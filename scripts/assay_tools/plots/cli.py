"""Command line of `assay plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay_tools import strict_json
from assay_tools.arguments import Parser, emit
from assay_tools.benchfile import BenchFile, parse_results
from assay_tools.errors import Exit, ToolError
from assay_tools.files import prepare_directory
from assay_tools.plots import style
from assay_tools.plots.forest import plot_forest
from assay_tools.plots.latency import plot_latency
from assay_tools.plots.replay import plot_replay

EPILOG = """example:
  assay plot bench.json gate/gate.json --replay replay.json --out plots

exit codes:
  0   the figures were written
  2   a bad flag, unreadable input, unwritable output, or nothing to draw
  70  a defect in assay
  77  the Python environment is not installed"""


def load_replay(path: Path) -> dict[str, Any]:
    """replay.json, checked."""
    value = strict_json.load(path)
    strict_json.validate(value, "replay", str(path))
    return dict(value)


def _sort_inputs(paths: Sequence[Path]) -> tuple[list[BenchFile], list[dict[str, Any]]]:
    """Result files and gate files tell themselves apart by their content."""
    benches: list[BenchFile] = []
    gates: list[dict[str, Any]] = []
    for path in paths:
        data = strict_json.read_bytes(path)
        value = strict_json.parse(data, str(path))
        if isinstance(value, dict) and value.get("schema") == "assay.gate/1":
            strict_json.validate(value, "gate", str(path))
            gates.append(value)
        elif isinstance(value, dict) and value.get("schema") == "assay.replay/1":
            raise ToolError(f"{path}: a replay result; give it as --replay {path}")
        else:
            benches.append(parse_results(data, str(path)))
    return benches, gates


def draw(
    benches: Sequence[BenchFile],
    gates: Sequence[dict[str, Any]],
    replay: dict[str, Any] | None,
    out: style.Target,
) -> list[style.FigureFile]:
    """Every figure that the inputs allow, and the manifest."""
    figures: list[style.FigureFile] = []
    if benches:
        figures += plot_latency(benches, out)
    for index, gate in enumerate(gates):
        figures += plot_forest(gate, out, "forest" if len(gates) == 1 else f"forest-{index + 1}")
    if replay is not None:
        figures += plot_replay(replay, out)
    style.write_manifest(out, figures)
    return figures


def main(argv: Sequence[str]) -> Exit:
    """Draw and list what was written."""
    parser = Parser(prog="assay plot", description="Figures as SVG, PNG and CSV.", epilog=EPILOG)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="BENCH.json|gate.json", help="results to draw"
    )
    parser.add_argument("--replay", type=Path, metavar="replay.json", help="a replay to draw")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="made if absent")
    arguments = parser.parse_args(argv)
    if not arguments.files and arguments.replay is None:
        raise ToolError("nothing to draw: give BENCH.json, gate.json or --replay replay.json")
    benches, gates = _sort_inputs(arguments.files)
    replay = load_replay(arguments.replay) if arguments.replay else None
    prepare_directory(arguments.out)
    figures = draw(benches, gates, replay, style.Target(arguments.out))
    emit("".join(f"{arguments.out / f.name}.svg: {f.alt}\n" for f in figures))
    return Exit.GOOD

"""Command line of `assay report`, and the page's assembly."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_tools import strict_json
from assay_tools.arguments import Parser, emit
from assay_tools.benchfile import load_results
from assay_tools.errors import Exit, ToolError, combine
from assay_tools.fields import is_model
from assay_tools.files import prepare_file, write_atomic
from assay_tools.plots import style
from assay_tools.plots.latency import plot_latency
from assay_tools.plots.replay import plot_replay
from assay_tools.report import model, svg

OPEN_FAILURES_MAX = 20
EPILOG = """example:
  assay report --verify verify.json --bench bench.json --replay replay.json --out index.html

exit codes:
  0   the page was written (it may show failures)
  2   a bad flag, unreadable input, or unwritable output
  3   results of the CUDA driver's model among those of a real one
  4   a named input is absent, or the scorecard verified nothing
  70  a defect in assay
  77  the Python environment is not installed"""


@dataclass
class Section:
    """One input: its value, or why the page cannot show it."""

    name: str
    path: Path | None
    value: Any = None
    missing: str = ""
    code: Exit = Exit.GOOD


@dataclass(frozen=True)
class Picture:
    """A figure ready to stand in the page."""

    name: str
    title: str
    alt: str
    svg: Any


def _schema_loader(schema: str) -> Callable[[Path], Any]:
    def load(path: Path) -> Any:
        value = strict_json.load(path)
        strict_json.validate(value, schema, str(path))
        return value

    return load


def load_verify(path: Path) -> Any:
    """verify.json, checked; two answers to one question are refused."""
    value = _schema_loader("verify")(path)
    for part, keys in (("subjects", ("id",)), ("properties", ("id",)),
                       ("cells", ("subject", "property"))):  # fmt: skip
        seen: set[tuple[str, ...]] = set()
        for index, item in enumerate(value[part]):
            key = tuple(item[name] for name in keys)
            if key in seen:
                raise ToolError(f"{path}: {part}/{index}: {', '.join(key)} occurs twice")
            seen.add(key)
    return value


def load_model_verify(path: Path) -> Any:
    """A scorecard of the driver's model; one of anything else has no place under that heading."""
    value = load_verify(path)
    if not is_model(value["context"]):
        driver = value["context"].get("driver", "(absent)")
        raise ToolError(
            f"{path}: its driver is {driver}, not the model; give it as --verify",
            Exit.NOT_COMPARABLE,
        )
    return value


def refuse_mixture(sections: Sequence[Section]) -> None:
    """What a model of the driver answered is never shown as if a device had."""
    kinds = {
        name: str(context.get("driver", "none")) for name, context in _contexts(sections).items()
    }
    models = sorted(name for name, kind in kinds.items() if kind == "model")
    real = sorted(name for name, kind in kinds.items() if kind == "driver")
    if models and real:
        raise ToolError(
            f"{', '.join(models)} ran on the model of the CUDA driver and {', '.join(real)} on a "
            "real one: they cannot stand on one page; give the model's scorecards as --model",
            Exit.NOT_COMPARABLE,
        )


def load_section(name: str, path: Path | None, load: Callable[[Path], Any]) -> Section:
    """A missing or unreadable input becomes a visible hole, and an exit code."""
    if path is None:
        return Section(name, None, missing=f"no {name} result was given (--{name} FILE)")
    if not path.exists():
        return Section(name, path, missing=f"{path} does not exist", code=Exit.INCOMPLETE)
    try:
        return Section(name, path, load(path))
    except ToolError as error:
        return Section(name, path, missing=f"refused: {error}", code=error.code)


def _drawn(directory: Path) -> list[Picture]:
    """Figures that a manifest in `directory` lists."""
    from markupsafe import Markup

    manifest = directory / style.MANIFEST
    if not manifest.exists():
        raise ToolError(f"{manifest} does not exist; make it with assay plot --out {directory}")
    value = strict_json.load(manifest)
    try:
        entries = [(str(e["name"]), str(e["title"]), str(e["alt"])) for e in value["figures"]]
    except (KeyError, TypeError):
        raise ToolError(f"{manifest}: not a list of figures") from None
    pictures = []
    for name, title, alt in entries:
        if Path(name).name != name:
            raise ToolError(f"{manifest}: figure name {name!r} is a path")
        markup = Markup(svg.inline(directory / f"{name}.svg", alt))
        pictures.append(Picture(name, title, alt, markup))
    return pictures


def _draw_here(bench: Section, replay: Section) -> tuple[list[Picture], str]:
    """Draw what the inputs allow; what cannot be drawn is said instead."""
    note = ""
    with tempfile.TemporaryDirectory(prefix="assay-report-") as directory:
        out = style.Target(Path(directory), ("svg",))
        figures: list[style.FigureFile] = []
        if bench.value is not None:
            try:
                figures += plot_latency([bench.value], out)
            except ToolError as error:
                note = f"no figure: {error}"
        if replay.value is not None:
            figures += plot_replay(replay.value, out)
        style.write_manifest(out, figures)
        return _drawn(out.directory), note


def _verdict(lines: Sequence[model.Line], sections: Sequence[Section]) -> model.Line:
    bad = [line for line in lines if line.style == "bad"]
    holes = [section.name for section in sections if section.value is None]
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return model.Line("bad", "FAIL", bad[0].text + more)
    nothing = [line for line in lines if line.word == model.NOTHING_VERIFIED]
    if nothing:
        return model.Line("warn", "INCOMPLETE", nothing[0].text)
    if holes:
        return model.Line("warn", "INCOMPLETE", f"missing: {', '.join(holes)}")
    if any(line.style == "warn" for line in lines):
        text = "nothing of this project failed; there are findings below"
        return model.Line("warn", "PASS with findings", text)
    return model.Line("good", "PASS", "nothing failed")


def _rerun(sections: Sequence[Section], failures: Sequence[model.Failure]) -> list[tuple[str, str]]:
    """Commands that repeat what the page shows."""
    verify, bench, replay = sections
    steps: list[tuple[str, str]] = []
    seed = verify.value["seed"] if verify.value is not None else 1
    steps.append(("The scorecard:", f"assay verify --seed {seed} --out verify.json"))
    for failure in failures[:OPEN_FAILURES_MAX]:
        subject, prop = shlex.quote(failure.subject), shlex.quote(failure.property)
        command = f"assay verify --subject {subject} --property {prop} --seed {failure.seed}"
        if failure.trace != model.DASH:
            command = f"assay verify --reproduce {shlex.quote(failure.trace)}\n{command}"
        steps.append((f"The failure of {failure.subject}, {failure.property}:", command))
    seed = bench.value.context.get("seed", 1) if bench.value is not None else 1
    steps.append(("The benchmarks:", f"assay bench --seed {seed} --out bench.json"))
    trace = replay.value["trace"].get("path", "TRACE") if replay.value is not None else "TRACE"
    steps.append(("The replay:", f"assay replay {shlex.quote(str(trace))} --out replay.json"))
    arguments = [
        f"--{section.name} {shlex.quote(str(section.path))}" for section in sections if section.path
    ]
    steps.append(("This page:", f"assay report {' '.join(arguments)} --out index.html"))
    return steps


def _contexts(sections: Sequence[Section]) -> dict[str, Any]:
    found = {}
    for section in sections:
        if section.value is not None:
            whole = section.value
            found[section.name] = whole.context if section.name == "bench" else whole["context"]
    return found


def render(
    verify: Section,
    bench: Section,
    replay: Section,
    plots: Path | None,
    on_model: Sequence[Section] = (),
) -> str:
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    sections = (verify, bench, replay)
    pictures, bench_note = _draw_here(bench, replay) if plots is None else (_drawn(plots), "")
    card = model.scorecard(verify.value) if verify.value is not None else None
    lines: list[model.Line] = []
    lines += model.verify_summary(card) if card else []
    lines += model.bench_summary(bench.value) if bench.value is not None else []
    lines += model.replay_summary(replay.value) if replay.value is not None else []
    profiles = [model.profile_card(section.value) for section in on_model if section.value]
    lines += [line for profile in profiles for line in profile.summary]
    lines += [
        model.Line("warn", "missing", section.missing)
        for section in on_model
        if section.value is None
    ]
    facts = model.environment_table(_contexts(sections))
    lines += model.environment_summary(facts)
    lines += [model.Line("warn", "missing", s.missing) for s in sections if s.value is None]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
    )
    environment.globals["open_max"] = OPEN_FAILURES_MAX

    def of(prefix: str) -> list[Picture]:
        return [picture for picture in pictures if picture.name.startswith(prefix)]

    shown = of("latency") + of("replay")
    return environment.get_template("page.html.j2").render(
        verdict=_verdict(lines, sections),
        summary=lines,
        verify=verify,
        card=card,
        main_on_model=verify.value is not None and is_model(verify.value["context"]),
        profiles=profiles,
        bench=bench,
        bench_tables=model.bench_tables(bench.value) if bench.value is not None else [],
        bench_figures=of("latency"),
        bench_note=bench_note,
        replay=replay,
        replay_data=model.replay_table(replay.value) if replay.value is not None else None,
        trace_data=model.trace_table(replay.value) if replay.value is not None else None,
        replay_figures=of("replay"),
        other_figures=[picture for picture in pictures if picture not in shown],
        environment=facts,
        rerun=_rerun(sections, card.failures if card else []),
    )


def main(argv: Sequence[str]) -> Exit:
    """Write the page; holes in it show in the exit code too."""
    parser = Parser(
        prog="assay report", description="One HTML page from the results.", epilog=EPILOG
    )
    parser.add_argument("--verify", type=Path, metavar="verify.json", help="the scorecard")
    parser.add_argument("--bench", type=Path, metavar="bench.json", help="the benchmarks")
    parser.add_argument("--replay", type=Path, metavar="replay.json", help="the replay")
    parser.add_argument(
        "--model", type=Path, action="append", default=[], metavar="model.json",
        help="a scorecard made on the model of the CUDA driver (again for more profiles)",
    )  # fmt: skip
    parser.add_argument(
        "--plots", type=Path, metavar="DIR", help="figures made by assay plot (default: drawn here)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="index.html", help="the page")
    arguments = parser.parse_args(argv)
    if arguments.verify is None and arguments.bench is None and arguments.replay is None:
        raise ToolError("nothing to report: give --verify, --bench or --replay")
    prepare_file(arguments.out)
    verify = load_section("verify", arguments.verify, load_verify)
    bench = load_section("bench", arguments.bench, load_results)
    replay = load_section("replay", arguments.replay, _schema_loader("replay"))
    on_model = [load_section("model", path, load_model_verify) for path in arguments.model]
    refuse_mixture((verify, bench, replay))
    write_atomic(arguments.out, render(verify, bench, replay, arguments.plots, on_model))
    codes = [section.code for section in (verify, bench, replay, *on_model)]
    note = ""
    if verify.value is not None and not model.verified(verify.value):
        codes.append(Exit.INCOMPLETE)
        note = ": nothing was verified"
    emit(f"wrote {arguments.out}{note}\n")
    return combine(codes)

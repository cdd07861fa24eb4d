"""The page: complete, escaped, self-contained, and honest about holes."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from assay_tools.tests import samples
from assay_tools.tests.conftest import Gate

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks nesting while it collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def inputs(gate: Gate, verify: dict[str, Any] | None = None) -> list[object]:
    (gate.root / "verify.json").write_text(json.dumps(verify or samples.verify()))
    (gate.root / "replay.json").write_text(json.dumps(samples.replay()))
    gate.write("bench.json", samples.bench_rows(), samples.FULL_CONTEXT)
    names = ("verify", "bench", "replay")
    return [part for name in names for part in (f"--{name}", gate.root / f"{name}.json")]


def report(gate: Gate, *arguments: object, code: int = 0, draw: bool = False) -> Page:
    """Write and parse the page; without `draw` it takes its figures from an empty folder."""
    out, empty = gate.root / "index.html", gate.root / "no-figures"
    empty.mkdir(exist_ok=True)
    (empty / "figures.json").write_text('{"figures": []}')
    flags = () if draw or "--plots" in arguments else ("--plots", empty)
    assert gate.call("report", *arguments, *flags, "--out", out) == code
    return Page(out.read_text(encoding="utf-8"))


def test_the_page_has_every_section(gate: Gate) -> None:
    page = report(gate, *inputs(gate))
    ids = {attributes.get("id") for attributes in page.all("section")}
    assert {"summary", "scorecard", "benchmarks", "replay", "environment", "rerun"} <= ids
    assert page.all("html")[0]["lang"] == "en"
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))


def test_the_page_is_self_contained_and_runs_nothing(gate: Gate) -> None:
    page = report(gate, *inputs(gate), draw=True)
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "object", "foreignobject")
        for key, value in attributes.items():
            assert not key.startswith("on")
            if key in ("src", "href", "xlink:href") and value is not None:
                assert value.startswith(("#", "data:image/png")), (tag, value)


def test_hostile_text_stays_text(gate: Gate) -> None:
    page = report(gate, *inputs(gate), draw=True)
    assert samples.HOSTILE in page.text
    assert "<script>" not in (gate.root / "index.html").read_text(encoding="utf-8")


def test_a_failure_carries_all_that_reproduces_it(gate: Gate) -> None:
    page = report(gate, *inputs(gate))
    for word in ("4242", "alloc slot=0 size=64", "out/ours.trace", "why:", "goal of alignment"):
        assert word in page.text
    anchors = {a["href"] for a in page.all("a") if (a["href"] or "").startswith("#failure")}
    targets = {f"#{d['id']}" for d in page.all("details") if d.get("id")}
    assert anchors and anchors <= targets


@pytest.mark.parametrize(
    ("outcome", "word"),
    [("pass", "✓ pass"), ("fail", "✗ FAIL"), ("n/a", "– n/a"), ("skipped", "○ skipped"),
     ("crashed", "‼ crashed"), ("timed_out", "… timed out")],
)  # fmt: skip
def test_every_outcome_has_its_word(gate: Gate, outcome: str, word: str) -> None:
    page = report(gate, *inputs(gate, samples.verify(one="pass", two=outcome)))
    assert word in page.text
    assert "? not run" in page.text  # the demo has no second cell
    rerun = "assay verify --reproduce out/ours.trace"
    assert (rerun in page.text) == (outcome in ("fail", "crashed", "timed_out"))
    expected = "FAIL: 1 properties" if outcome in ("fail", "crashed", "timed_out") else "FAIL: 1 be"
    assert expected in page.text


def test_a_quiet_result_passes(gate: Gate) -> None:
    arguments = inputs(gate, samples.verify(one="pass"))
    good = [row for row in samples.bench_rows() if "error_occurred" not in row]
    gate.write("bench.json", good, samples.FULL_CONTEXT)
    page = report(gate, *arguments)
    assert "PASS: nothing failed" in page.text


def test_an_uncaught_mutant_is_a_failure(gate: Gate) -> None:
    verify = samples.verify(one="pass")
    verify["mutants"][0]["killed"] = False
    assert "broken allocators were not caught" in report(gate, *inputs(gate, verify)).text


def test_nothing_verified_is_not_a_pass(gate: Gate) -> None:
    page = report(gate, *inputs(gate, samples.verify(one="skipped")), code=4)
    assert "nothing was verified" in page.text


@pytest.mark.parametrize("parts", [["cells"], ["subjects", "properties", "cells"]])
def test_an_empty_scorecard_is_incomplete(gate: Gate, parts: list[str], capsys: Any) -> None:
    verify = samples.verify(one="pass") | {part: [] for part in parts} | {"mutants": []}
    path = gate.root / "verify.json"
    path.write_text(json.dumps(verify))
    page = report(gate, "--verify", path, code=4)
    assert "INCOMPLETE" in page.text and "nothing was verified" in page.text
    assert "nothing was verified" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["subjects", "properties", "cells"])
def test_two_answers_to_one_question_are_refused(gate: Gate, part: str) -> None:
    verify = samples.verify(one="pass")
    verify[part].append(verify[part][0] | {"outcome": "fail"})
    page = report(gate, *inputs(gate, verify), code=2)
    assert "occurs twice" in page.text


@pytest.mark.parametrize("value", [2**65, 1e300, 10**300])
@pytest.mark.parametrize("place", ["p50_ns", "peak", "live_bytes", "event", "time_s"])
def test_a_figure_that_no_machine_has_is_refused(
    gate: Gate, place: str, value: float, capsys: Any
) -> None:
    replay = samples.replay()
    if place == "p50_ns":
        replay["runs"][1]["operations"]["allocate"][place] = value
    elif place == "peak":
        replay["runs"][1]["peak"]["reserved_bytes"] = value
    elif place == "time_s":
        replay["runs"][1][place] = value
    else:
        replay["timeline"][1][place] = value
    path = gate.root / "odd.json"
    path.write_text(json.dumps(replay))
    for verb in ("plot", "report"):
        assert gate.call(verb, "--replay", path, "--out", gate.root / f"{verb}.out") == 2
    row = "timeline/1" if place in ("live_bytes", "event") else "runs/1"
    assert f"at {row}/" in capsys.readouterr().err


def test_a_size_that_is_no_number_is_shown_as_it_is(gate: Gate) -> None:
    replay = samples.replay()
    replay["options"]["limit_bytes"] = "all"
    path = gate.root / "odd.json"
    path.write_text(json.dumps(replay))
    assert gate.call("report", "--replay", path, "--out", gate.root / "page.html") == 0


def test_figures_have_alt_texts_with_the_finding_and_unique_ids(gate: Gate) -> None:
    page = report(gate, *inputs(gate), draw=True)
    figures = page.all("svg")
    assert len(figures) == 3
    labels = [figure["aria-label"] or "" for figure in figures]
    assert all(figure["role"] == "img" for figure in figures)
    assert any("is fastest with" in label for label in labels)
    assert any("reserves least" in label for label in labels)
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    references = {a["xlink:href"] for a in page.all("use")}
    assert references <= {f"#{name}" for name in ids}


def test_figures_may_come_from_a_directory(gate: Gate) -> None:
    arguments = inputs(gate)
    plots = gate.root / "plots"
    assert gate.call("plot", gate.root / "bench.json", "--out", plots) == 0
    page = report(gate, *arguments, "--plots", plots)
    assert len(page.all("svg")) == 1
    report_code = gate.call(
        "report", *arguments, "--plots", gate.root / "absent", "--out", gate.root / "x.html"
    )
    assert report_code == 2


def test_an_svg_from_elsewhere_is_cleaned(gate: Gate) -> None:
    from assay_tools.report.svg import inline

    path = gate.root / "evil.svg"
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        ' onload="x()"><script>alert(1)</script><style>@import url(http://a/b)</style>'
        '<foreignObject><p>hi</p></foreignObject><a xlink:href="javascript:x()"><path/></a>'
        '<use xlink:href="http://a/b#c"/><rect id="r" style="fill: url(http://a)"/>'
        '<g clip-path="url(#r)"/><image xlink:href="http://a/b.png"/></svg>'
    )
    text = inline(path, 'say "hi" <b>')
    for word in ("script", "onload", "javascript", "http://a", "foreignObject", "@import"):
        assert word not in text
    assert 'id="evil-r"' in text and "url(#evil-r)" in text
    assert "say &quot;hi&quot; &lt;b&gt;" in text


@pytest.mark.parametrize("hole", ["verify", "bench", "replay"])
def test_a_hole_is_shown(gate: Gate, hole: str) -> None:
    arguments = inputs(gate)
    position = arguments.index(f"--{hole}")
    without = arguments[:position] + arguments[position + 2 :]
    page = report(gate, *without)
    assert f"no {hole} result was given" in page.text
    path = Path(str(arguments[position + 1]))
    path.unlink()
    assert "does not exist" in report(gate, *arguments, code=4).text
    path.write_text("{")
    assert "refused:" in report(gate, *arguments, code=2).text
    path.write_text('{"schema": "something else"}')
    assert "refused:" in report(gate, *arguments, code=2).text


def test_no_input_is_a_usage_error(gate: Gate) -> None:
    assert gate.call("report", "--out", gate.root / "x.html") == 2
    assert not (gate.root / "x.html").exists()


def test_environment_marks_what_differs(gate: Gate) -> None:
    arguments = inputs(gate)
    gate.write("bench.json", samples.bench_rows(), samples.FULL_CONTEXT | {"commit": "feed"})
    page = report(gate, *arguments)
    assert "differs" in page.text and "feed" in page.text
    assert "the inputs differ in commit" in page.text
    assert "only verify" in page.text  # the kernel


def test_the_page_is_stable(gate: Gate) -> None:
    arguments = inputs(gate)
    pages = []
    for _ in range(2):
        report(gate, *arguments, draw=True)
        pages.append((gate.root / "index.html").read_bytes())
    assert pages[0] == pages[1]


def on_model(gate: Gate, profile: str, **outcomes: str) -> Path:
    """A scorecard of the driver's model, as assay verify --driver model writes it."""
    value = samples.verify(**outcomes)
    value["context"] |= {
        "driver": "model", "driver_version": "13.0", "driver_profile": profile,
        "device_name": "MODEL (no GPU)",
    }  # fmt: skip
    path = gate.root / f"model-{profile}.json"
    path.write_text(json.dumps(value))
    return path


def test_what_was_verified_on_the_model_stands_apart_and_shows_no_time(gate: Gate) -> None:
    paths = [on_model(gate, name, no_overlap="pass") for name in ("h200", "driver_11_8")]
    flags = [part for path in paths for part in ("--model", path)]
    page = report(gate, *inputs(gate, samples.verify(no_overlap="pass")), *flags)
    assert "h200: verified on the model (not a GPU)" in page.text
    assert "driver_11_8: verified on the model (not a GPU)" in page.text
    section = page.text[page.text.index("Verified on the model") : page.text.index("Benchmarks", 1)]
    assert " ns" not in section and " ms" not in section
    assert "1 properties hold on the model h200 (not a GPU)" in page.text


def test_a_failure_on_the_model_is_one_of_ours(gate: Gate) -> None:
    path = on_model(gate, "h200", no_overlap="fail")
    page = report(gate, *inputs(gate, samples.verify(no_overlap="pass")), "--model", path)
    assert "1 properties fail on the model h200: ours" in page.text
    anchors = {link["href"] for link in page.all("a")} & {"#h200-failure-1"}
    assert anchors and any(a.get("id") == "h200-failure-1" for a in page.all("details"))


def test_the_model_is_never_shown_among_results_of_a_device(gate: Gate) -> None:
    flags = inputs(gate)
    gate.write("bench.json", samples.bench_rows(), samples.FULL_CONTEXT | {"driver": "driver"})
    on_page = on_model(gate, "h200", no_overlap="pass")
    (gate.root / "verify.json").write_text(on_page.read_text())
    assert gate.call("report", *flags, "--out", gate.root / "index.html") == 3
    assert not (gate.root / "index.html").exists()


def test_a_scorecard_of_no_model_is_refused_under_that_heading(gate: Gate) -> None:
    flags = inputs(gate, samples.verify(no_overlap="pass"))
    page = report(gate, *flags, "--model", gate.root / "verify.json", code=3)
    assert "refused" in page.text and "not the model" in page.text

"""`python -m assay_tools gate|plot|report ...`: one exit code, whatever happens."""

from __future__ import annotations

import io
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FrameType

from assay_tools.arguments import emit, silence_stdout
from assay_tools.errors import Exit, ToolError

USAGE = """usage: assay gate ab|compare|selftest ...   verdict on a change
       assay plot BENCH.json... --out DIR    figures from results
       assay report ... --out index.html     one page from everything
Add --help after the verb for its options."""
STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def _verb(name: str) -> Callable[[Sequence[str]], Exit]:
    if name == "gate":
        from assay_tools.gate.cli import main

        return main
    if name == "plot":
        from assay_tools.plots.cli import main as plot_main

        return plot_main
    if name == "report":
        from assay_tools.report.cli import main as report_main

        return report_main
    raise ToolError(f"unknown verb {name!r}\n{USAGE}")


class Interrupted(KeyboardInterrupt):
    """A signal that asks to stop: unwinds like Ctrl-C, so that children and copies go away."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in STOPPING:  # a second one must not cut the clean-up short
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def run(argv: Sequence[str]) -> int:
    """Map every outcome to the table of exit codes."""
    if not argv or argv[0] in ("-h", "--help"):
        return _usage(bool(argv))
    try:
        return int(_verb(argv[0])(argv[1:]))
    except ToolError as error:
        print(f"assay {argv[0]}: {error}", file=sys.stderr)
        return int(error.code)
    except ModuleNotFoundError as error:
        print(
            f"assay {argv[0]}: Python module {error.name!r} is not installed here; "
            "run scripts/setup",
            file=sys.stderr,
        )
        return int(Exit.NOTHING_RAN)
    except KeyboardInterrupt as error:
        print(f"assay {argv[0]}: interrupted, no verdict was written", file=sys.stderr)
        return 128 + (error.number if isinstance(error, Interrupted) else signal.SIGINT)
    except OSError as error:  # a full disk or stdout, no more processes: the machine's, not ours
        silence_stdout()
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"assay {argv[0]}: {where}{error.strerror or error}", file=sys.stderr)
        return int(Exit.USAGE)
    except Exception:
        traceback.print_exc()
        print(f"assay {argv[0]}: internal error (please report the lines above)", file=sys.stderr)
        return int(Exit.INTERNAL)


def _usage(asked: bool) -> int:
    if not asked:
        print(USAGE, file=sys.stderr)
        return int(Exit.USAGE)
    try:
        emit(USAGE + "\n")
    except ToolError as error:
        print(f"assay: {error}", file=sys.stderr)
        return int(error.code)
    return int(Exit.GOOD)


def main() -> None:
    """Entry point of the process."""
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:])
    except SystemExit as stop:  # --help, or a flag that argparse refused
        code = stop.code if isinstance(stop.code, int) else int(Exit.USAGE)
    try:
        if sys.stdout is not None:
            emit("")
    except ToolError as error:
        print(f"assay: {error}", file=sys.stderr)
        code = int(error.code)
    raise SystemExit(code)


if __name__ == "__main__":
    main()

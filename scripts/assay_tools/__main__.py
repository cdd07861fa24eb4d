"""`python -m assay_tools gate|plot|report ...`: one exit code, whatever happens."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FrameType

from assay_tools.errors import Exit, ToolError

USAGE = """usage: assay gate ab|compare|selftest ...   verdict on a change
       assay plot BENCH.json... --out DIR    figures from results
       assay report ... --out index.html     one page from everything
Add --help after the verb for its options."""


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


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run(argv: Sequence[str]) -> int:
    """Map every outcome to the table of exit codes."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if argv else sys.stderr)
        return int(Exit.GOOD if argv else Exit.USAGE)
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
    except KeyboardInterrupt:
        print(f"assay {argv[0]}: interrupted, no verdict was written", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception:
        traceback.print_exc()
        print(f"assay {argv[0]}: internal error (please report the lines above)", file=sys.stderr)
        return int(Exit.INTERNAL)


def main() -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)


if __name__ == "__main__":
    main()

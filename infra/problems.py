"""The one error type a person is meant to read: what is wrong, and the way out, in one line.

Refuses to know what any command does; the command line prints a Problem and exits with its code.
"""

from __future__ import annotations

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2


class Problem(Exception):
    """Something the person at the keyboard can act on.

    `what` says what is wrong, `way_out` what to do; both are one sentence without a line break.
    `exit_code` is 1 when work failed and 2 when the request itself was wrong.
    """

    def __init__(self, what: str, way_out: str, exit_code: int = EXIT_FAILED) -> None:
        self.what = " ".join(what.split())
        self.way_out = " ".join(way_out.split())
        self.exit_code = exit_code
        super().__init__(self.line())

    def line(self) -> str:
        """The single line that is printed."""
        if not self.way_out:
            return self.what
        what = self.what.rstrip(".")
        return f"{what}{'' if what.endswith(('?', '!')) else '.'} {self.way_out}"

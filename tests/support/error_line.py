"""What a verb writes to standard error when it fails: one line, behind the lines of progress that a
machine gets which takes its time.
"""

from __future__ import annotations


def error_line(err: str) -> str:
    """The one line, without its end. ValueError: there is none, or there are several."""
    (line,) = [one for one in err.splitlines() if not one.endswith(" …")]
    return line

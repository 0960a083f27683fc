"""How a store refuses.

Responsible for: telling a full disk, which passes, from everything that does not. Refuses to know: what was asked.
"""

from __future__ import annotations


class LogError(Exception):
    """The log refuses: files that do not fit together, an offset outside, an earlier I/O error. One line, with the way out."""


class DiskFull(LogError):
    """No room for these bytes: none of them was kept. The log goes on as it was and takes bytes again once there is."""

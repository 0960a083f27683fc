"""The errors that the lakehouse shows to a person.

Responsible for one line of text with the way out in it.
Refuses to know exit codes: the command line maps these errors to them.
"""


class LakehouseError(Exception):
    """Something a person can mend; the text says what and how."""


class LandingGap(LakehouseError):
    """The log no longer holds, or never held, the records that should come next."""


class TablesInUse(LakehouseError):
    """Another landing job writes these tables."""


class LocksDoNotHold(LakehouseError):
    """Locks where the tables lie would keep nobody away."""


class NotLanded(LakehouseError):
    """The tables do not hold (yet) what was asked for."""

"""What the codes of an answer to a proposal (1001) say of it (RULES 10.6).

Responsible for: which refusal is definite, which was only of the proposal's base. Refuses to know:
what follows from it.
"""

from __future__ import annotations

from collections.abc import Collection

CODE_ACCEPTED = 0
# Refusals decided by the fold on this very command: it will never be accepted.
CODES_DEFINITE = frozenset({2003, 2006})
# Refusals that leave open whether an earlier attempt was accepted, unless the set epoch is told.
CODES_OF_STATE = frozenset({2000, 2001, 2002, 2013})
# Of those: it was based on another mastership or another set; nobody looked at what it names.
CODES_OUTDATED = frozenset({2000, 2001, 2002})


def refuses_for_good(
    code: int, base_set_epoch: int, members: Collection[int] | None, set_epoch: int | None
) -> bool:
    """No attempt of the proposal was or will be accepted, or the set it made is told."""
    if code in CODES_DEFINITE:
        return True
    if code not in CODES_OF_STATE or set_epoch is None:
        return False
    return set_epoch <= base_set_epoch or members is not None

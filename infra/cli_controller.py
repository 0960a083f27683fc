"""`regent controller VERB`: which verbs there are for controllers that run. `regent controller --config` runs one.

Each verb is a module with `add_arguments(parser, verb)` and `run(arguments)`, as every verb of the command line;
`arguments.verb` is the word behind `controller`.
"""

from __future__ import annotations

from infra.cli import Verb

STATE = "infra.cli_controller_state"

SUBVERBS: dict[str, Verb] = {
    "status": Verb(STATE, "who leads, who stands by, with which release, and how far each is",
                   ("regent controller status", "regent controller status --controller 10.0.0.1:9878 --json")),
}

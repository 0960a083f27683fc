"""`regent controller VERB`: which verbs there are for controllers that run. `regent controller
--config` runs one.

Each verb is a module with `add_arguments(parser, verb)` and `run(arguments)`, as every verb of the
command line; `arguments.verb` is the word behind `controller`.
"""

from __future__ import annotations

from infra.cli.main import Verb

STATE = "infra.cli.controller.state"
CHANGE = "infra.cli.controller.change"

SUBVERBS: dict[str, Verb] = {
    "status": Verb(
        STATE,
        "who leads, who stands by, with which release, and how far each is",
        ("regent controller status", "regent controller status --controller 10.0.0.1:9878 --json"),
    ),
    "sets": Verb(
        STATE,
        "all broker sets: master, epochs, SyncStateSet, and what is wrong with each",
        ("regent controller sets", "regent controller sets --all --json"),
    ),
    "set": Verb(
        STATE,
        "one broker set: each replica with role, epoch, offsets, silence; refusals that repeat",
        ("regent controller set broker-a",),
    ),
    "ids": Verb(
        STATE,
        "broker ids: given out, never claimed, next",
        ("regent controller ids", "regent controller ids broker-a --json"),
    ),
    "elect": Verb(
        CHANGE,
        "a master for a broker set: the named replica, or the best one when a master is wanting",
        (
            "regent controller elect broker-a",
            "regent controller elect broker-a 2",
            "regent controller elect broker-a 3 --unclean",
        ),
    ),
    "transfer": Verb(
        CHANGE,
        "another controller shall lead, or another replica of a broker set: no send fails for it",
        (
            "regent controller transfer",
            "regent controller transfer controller-2",
            "regent controller transfer broker-a",
            "regent controller transfer broker-a 2",
        ),
    ),
    "clean": Verb(
        CHANGE,
        "forget replicas, unclaimed ids, or a whole broker set",
        (
            "regent controller clean broker-a 3",
            "regent controller clean broker-a --unclaimed --yes",
            "regent controller clean broker-old",
        ),
    ),
    "config": Verb(
        "infra.cli.controller.config",
        "settings of the whole cluster, each change recorded; log levels",
        (
            "regent controller config",
            "regent controller config get enableElectUncleanMaster",
            "regent controller config set electMasterMaxRetryCount=5",
            "regent controller config --log-level DEBUG --logger processors",
        ),
    ),
    "upgrade": Verb(
        "infra.cli.controller.upgrade",
        "activate the rules of a newer release, once every controller has it",
        ("regent controller upgrade --dry-run", "regent controller upgrade --to 2"),
    ),
    "import": Verb(
        "infra.cli.controller.import_sets",
        "take over the broker sets of a running RocketMQ controller, with ids and epochs",
        (
            "regent controller import --from 10.0.0.5:9878 --namesrv 10.0.0.4:9876 --dry-run",
            "regent controller import --from 10.0.0.5:9878 --sets broker-a,broker-b",
            "regent controller import --from 10.0.0.5:9878 --check",
        ),
    ),
    "export": Verb(
        "infra.cli.controller.export_sets",
        "hand broker sets to a fresh RocketMQ controller, ids and epochs above ours",
        (
            "regent controller export --to 10.0.0.5:9878 --dry-run",
            "regent controller export --to 10.0.0.5:9878 --sets broker-a",
        ),
    ),
    "adopt": Verb(
        "infra.cli.controller.changeover",
        "a broker set with fixed ids joins the controllers while it runs: sends wait, none fails",
        (
            "regent controller adopt broker-a --namesrv 10.0.0.4:9876 --dry-run",
            "regent controller adopt broker-a --namesrv 10.0.0.4:9876 --yes",
        ),
    ),
    "release": Verb(
        "infra.cli.controller.changeover",
        "the way back: a broker set gets fixed ids and leaves the controllers while it runs",
        (
            "regent controller release broker-a --dry-run",
            "regent controller release broker-a --yes --json",
        ),
    ),
    "rebuild": Verb(
        "infra.cli.controller.rebuild",
        "make a lost command log anew from the landed tables, and prove it by digest",
        (
            "regent controller rebuild --from-delta .regent/data/tables --dry-run",
            "regent controller rebuild --from-delta /srv/tables --kafka bootstrap.servers=k1:9092",
            "regent controller rebuild --from-log",
        ),
    ),
}

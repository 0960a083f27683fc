"""Runs the pages of this folder: `python -m tests.scenarios.pages [--rewrite] [NAME ...]`.

A page is text. A line that begins with `> ` is a command in words; the indented lines below it are
what came of it. Everything else is left as it is.

    > cluster [rules N] [without leader]      a cluster is formed, and n0 leads it
    > form N                                  the first record, once more
    > replicas N [minimum M]                  N replicas in sync, the first one leads
    > claim TERM CONTROLLER                   a controller wants to lead; TERM is the one it knows
    > id N [code TEXT]                        a replica takes an id
    > register N [as INCARNATION] [unclean] [java] [epoch E] [end O] [heard E:O] [minimum N]
    > elect [N] [designated] [waited MS] [knowing epoch E] among EVIDENCE
    > alter N,N by N [epoch E] [set S] [lost N,N] among EVIDENCE
    > clean N,N | all [living] among EVIDENCE
    > import N,N [of TEXT]                    a set of Java replicas, the first one its master
    > doubt [by N]                            the log may have lost decisions about the set
    > setting NAME VALUE
    > activate N [with schemas of M | without schemas]
    > bytes HEX                               bytes that are no command
    > state                                   the sets as they are

EVIDENCE is a list of replicas: `2` is alive, `2-` is not, `2@3:900` told epoch 3 and offset 900,
`2!5` told priority 5, `2~x` another incarnation (`2~java`: none). `in term T`, `of cluster X`,
`from offset N` and `repeating N` before a command give its envelope another term, cluster, place,
or the id of the Nth command after `cluster`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, ClusterFormed, Command
from events.envelope import ELECTION_PRIORITY_DEFAULT, Envelope, ReplicaEvidence
from events.outcomes import Outcome
from lakehouse import wording
from lakehouse.answers.decisions import result_text
from lakehouse.answers.state_at import set_text
from lakehouse.tables.columns import record_json
from processors.fold.rules import RULES_VERSION, schemas_of
from tests.support.control_history import History

FOLDER = Path(__file__).parent
COMMAND, SAID = "> ", "    "
_EVIDENCE = re.compile(r"(\d+)(-?)(?:@(-?\d+):(-?\d+))?(?:!(\d+))?(?:~(\w+))?$")


class BadPage(Exception):
    """A line that is no command; the text names it."""


@dataclass
class Words:
    """The words of one command, taken from the left or by name."""

    left: list[str]

    def take(self, count: int = 1) -> str:
        if len(self.left) < count:
            raise BadPage("something is missing at the end")
        return self.left.pop(0)

    def flag(self, *words: str) -> bool:
        """Whether these words follow one another somewhere; they are taken out."""
        for at in range(len(self.left) - len(words) + 1):
            if tuple(self.left[at : at + len(words)]) == words:
                del self.left[at : at + len(words)]
                return True
        return False

    def after(self, *words: str) -> str | None:
        """The word after these; all are taken out."""
        for at in range(len(self.left) - len(words)):
            if tuple(self.left[at : at + len(words)]) == words:
                found = self.left[at + len(words)]
                del self.left[at : at + len(words) + 1]
                return found
        return None

    def number(self, *words: str) -> int | None:
        found = self.after(*words)
        return None if found is None else int(found)

    def evidence(self) -> tuple[ReplicaEvidence, ...]:
        """What stands behind `among`."""
        if "among" not in self.left:
            return ()
        at = self.left.index("among")
        rows = tuple(_seen(word) for word in self.left[at + 1 :])
        del self.left[at:]
        return rows


def _seen(word: str) -> ReplicaEvidence:
    found = _EVIDENCE.match(word)
    if found is None:
        raise BadPage(f"{word!r} is no evidence")
    broker_id, gone = int(found[1]), found[2] == "-"
    epoch, offset = int(found[3] or 1), int(found[4] or 1000)
    return ReplicaEvidence(
        broker_id,
        not gone,
        "heartbeat_expired" if gone else "heartbeat",
        12_000 if gone else 100,
        epoch,
        offset,
        offset,
        int(found[5] or ELECTION_PRIORITY_DEFAULT),
        None if found[6] == "java" else found[6] or f"i{broker_id}",
    )


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


@dataclass
class Page:
    """One run of a page."""

    history: History = field(default_factory=lambda: History(formed=False))
    envelope: dict[str, Any] = field(default_factory=dict)
    issued: list[Envelope] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listen()

    def _listen(self) -> None:
        plain = self.history.envelope

        def envelope(**other: object) -> Envelope:
            made = plain(**{**self.envelope, **other})
            self.issued.append(made)
            return made

        self.history.envelope = envelope  # type: ignore[method-assign]

    def run(self, line: str) -> Iterator[str]:
        """What came of a command, line by line."""
        words = Words(line.split())
        self.envelope = {}
        if (term := words.number("in", "term")) is not None:
            self.envelope["term"] = term
        if (cluster := words.after("of", "cluster")) is not None:
            self.envelope["cluster_id"] = cluster
        if (place := words.number("from", "offset")) is not None:
            self.envelope |= {"applied_offset": place, "applied_digest": b""}
        if (number := words.number("repeating")) is not None:
            self.envelope["command_id"] = self.issued[number - 1].command_id
        verb = words.take()
        do = VERBS.get(verb)
        if do is None:
            raise BadPage(f"{verb!r} is no command")
        said = list(do(self, words))
        if words.left:
            raise BadPage(f"{' '.join(words.left)!r} means nothing to {verb!r}")
        yield from said

    def cluster(self, words: Words) -> Iterator[str]:
        rules = words.number("rules") or RULES_VERSION
        led = not words.flag("without", "leader")
        self.history = History(rules=rules, led=led)
        self._listen()
        state = self.history.folder.state
        leader = state.leader_id or "nobody"
        yield f"cluster {state.cluster_id}, rules {state.rules_version}, {leader} leads"

    def form(self, words: Words) -> Iterator[str]:
        version = int(words.take())
        marks = COMMAND_FINGERPRINTS
        return self._said(
            self.history.do(ClusterFormed(self.history.envelope(), version, {}, marks))
        )

    def replicas(self, words: Words) -> Iterator[str]:
        """So many are in sync, the first one leads."""
        minimum = words.number("minimum")
        everyone = range(1, int(words.take()) + 1)
        evidence = tuple(_seen(f"{one}@0:0") for one in everyone)
        for broker_id in everyone:
            self.history.apply_id(broker_id)
            self.history.register(broker_id, min_in_sync=minimum)
        self.history.elect(1, *evidence)
        self.history.alter(tuple(everyone), *evidence)
        one = self.history.set
        members = wording.members(one.sync_state_set)
        yield f"master {one.master_broker_id} in epoch {one.master_epoch}, set {members}"

    def claim(self, words: Words) -> Iterator[str]:
        return self._said(self.history.claim(int(words.take()), words.take()))

    def id(self, words: Words) -> Iterator[str]:
        code = words.after("code")
        return self._said(self.history.apply_id(int(words.take()), code))

    def register(self, words: Words) -> Iterator[str]:
        broker_id, heard = int(words.take()), words.after("heard")
        other: dict[str, Any] = {}
        if heard is not None:
            epoch, offset = heard.split(":")
            other = {"heard_epoch": int(epoch), "heard_offset": int(offset)}
        if words.flag("java"):
            return self._said(self.history.register_java(broker_id, **other))
        for name, key in (
            ("epoch", "last_epoch"),
            ("end", "end_offset"),
            ("minimum", "min_in_sync"),
        ):
            if (number := words.number(name)) is not None:
                other[key] = number
        if words.flag("unclean"):
            other["clean"] = False
        return self._said(self.history.register(broker_id, words.after("as") or "", **other))

    def elect(self, words: Words) -> Iterator[str]:
        evidence, designate = words.evidence(), words.flag("designated")
        waited, epoch = words.number("waited"), words.number("knowing", "epoch")
        broker_id = int(words.take()) if words.left else -1
        return self._said(
            self.history.elect(
                broker_id, *evidence, designate=designate, master_epoch=epoch, waited_ms=waited
            )
        )

    def alter(self, words: Words) -> Iterator[str]:
        evidence, lost = words.evidence(), words.after("lost")
        asked = {
            "master": words.number("by"),
            "master_epoch": words.number("epoch"),
            "set_epoch": words.number("set"),
        }
        members = _ids(words.take())
        return self._said(
            self.history.alter(members, *evidence, **asked, lost=_ids(lost) if lost else ())
        )

    def clean(self, words: Words) -> Iterator[str]:
        evidence, living = words.evidence(), words.flag("living")
        which = words.take()
        ids = None if which == "all" else () if which == "none" else _ids(which)
        return self._said(self.history.clean(ids, *evidence, living=living))

    def import_set(self, words: Words) -> Iterator[str]:
        source = words.after("of")
        other: dict[str, Any] = {} if source is None else {"source": source}
        for name, key in (("epoch", "master_epoch"), ("next", "next_broker_id")):
            if (number := words.number(name)) is not None:
                other[key] = number
        return self._said(self.history.import_set(*_ids(words.take()), **other))

    def doubt(self, words: Words) -> Iterator[str]:
        lifted = words.number("by")
        return self._said(self.history.doubt() if lifted is None else self.history.doubt(lifted))

    def setting(self, words: Words) -> Iterator[str]:
        return self._said(self.history.setting(words.take(), words.take()))

    def activate(self, words: Words) -> Iterator[str]:
        version = int(words.take())
        of = words.number("with", "schemas", "of")
        marks = () if words.flag("without", "schemas") else schemas_of(of or version)
        command: Command = ActivateRules(self.history.envelope(), version, marks)
        return self._said(self.history.do(command))

    def bytes(self, words: Words) -> Iterator[str]:
        return self._said(self.history.append(bytes.fromhex(words.take())).outcome)

    def state(self, words: Words) -> Iterator[str]:
        state = self.history.folder.state
        yield f"term {state.term}, leader {state.leader_id or '-'}, rules {state.rules_version}"
        for name in sorted(state.sets):
            yield from set_text(state.sets[name]).split("\n")
            if (remembered := state.sets[name].remembered) != ():
                yield f"  may be elected too: {wording.members(remembered)}"

    def _said(self, outcome: Outcome) -> Iterator[str]:
        entry = {"accepted": outcome.accepted, "refusal": outcome.refusal, "code": outcome.code}
        labels = wording.labels(outcome.labels)
        yield " ".join(filter(None, (f"{outcome.command_offset}:", result_text(entry), labels)))
        for row in outcome.candidates:
            yield f"  candidate {row.broker_id}: {row.verdict}"
        for change in json.loads(record_json(outcome.changes)):
            yield f"  {wording.change_line(change)}"


VERBS: dict[str, Callable[[Page, Words], Iterator[str]]] = {
    "cluster": Page.cluster,
    "form": Page.form,
    "replicas": Page.replicas,
    "claim": Page.claim,
    "id": Page.id,
    "register": Page.register,
    "elect": Page.elect,
    "alter": Page.alter,
    "clean": Page.clean,
    "import": Page.import_set,
    "doubt": Page.doubt,
    "setting": Page.setting,
    "activate": Page.activate,
    "bytes": Page.bytes,
    "state": Page.state,
}


def rewritten(text: str) -> str:
    """The page with what comes of its commands now. BadPage names a line that is none."""
    page, out = Page(), []
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if line.startswith(SAID):
            continue
        out.append(line)
        if line.startswith(COMMAND):
            try:
                out += [f"{SAID}{said}" for said in page.run(line.removeprefix(COMMAND))]
            except (BadPage, ValueError) as error:
                raise BadPage(f"line {number}, {line!r}: {error}") from error
    return "\n".join(out) + "\n"


def pages() -> list[Path]:
    """All pages, by name."""
    return sorted(FOLDER.glob("*.txt"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the scenario pages.")
    parser.add_argument("names", nargs="*", help="only these pages, without .txt")
    parser.add_argument("--rewrite", action="store_true", help="write what comes of them now")
    options = parser.parse_args()
    chosen = [path for path in pages() if not options.names or path.stem in options.names]
    differs = 0
    for path in chosen:
        before = path.read_text(encoding="utf-8")
        now = rewritten(before)
        if now == before:
            continue
        differs += 1
        if options.rewrite:
            path.write_text(now, encoding="utf-8")
        diff = difflib.unified_diff(before.split("\n"), now.split("\n"), path.name, "now", n=1)
        print("\n".join(line.rstrip("\n") for line in diff))
    print(f"{len(chosen)} pages, {differs} {'rewritten' if options.rewrite else 'differ'}")
    return 1 if differs and not options.rewrite else 0


if __name__ == "__main__":
    sys.exit(main())

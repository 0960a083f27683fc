"""
Writes the golden history: `python tests/golden/folds/regenerate.py` from the project's root.

`history.jsonl` has one record of the command log per line: its offset, its bytes in hex, what it
is there for, and the digest after it. `expected.json` has the last digest and the canonical state.

Run it only to lengthen the history, by adding to the end of `tell`: lines that stand in a
released file must come out as they were. The script says so and stops if they do not.
"""

import json
import sys
from pathlib import Path

from msgspec.structs import replace

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from events.commands import (  # noqa: E402
    ActivateRules,
    ApplyBrokerId,
    ChangeSettings,
    ClusterFormed,
    ElectMaster,
    RegisterBroker,
)
from processors import canonical  # noqa: E402
from processors.state import SETTING_DEDUPE_WINDOW, SETTING_UNCLEAN  # noqa: E402
from tests.support.control_history import CLUSTER, FIRST_FINGERPRINTS, NAME, History, seen  # noqa: E402

DEAD = {"alive": False, "reason": "connection_closed"}


class Story:
    """A history that remembers what each record is there for."""

    def __init__(self) -> None:
        self.history = History(formed=False)
        self.lines: list[dict[str, object]] = []

    def note(self, text: str) -> None:
        """Say what the records since the last note are there for."""
        for offset in range(len(self.lines), len(self.history.records)):
            record = self.history.records[offset].hex()
            self.lines.append({"offset": offset, "note": text, "record": record})

    def replay_digests(self) -> None:
        """Put the digest beside each record."""
        from processors.fold import Folder

        folder = Folder()
        for line, record in zip(self.lines, self.history.records, strict=True):
            line["digest"] = folder.apply(folder.next_offset, record).outcome.digest.hex()


def tell(story: Story) -> None:
    """Tell the history: each kind of command, change, refusal and label occurs."""
    h = story.history
    _forming(story)
    for broker_id in (1, 2, 3):
        h.apply_id(broker_id)
        h.register(broker_id)
    story.note("three replicas get ids and register")
    h.apply_id(9), h.apply_id(2, "other"), h.apply_id(2), h.register(7)
    h.register(1, broker_address="")
    story.note("refused and repeated ids and registrations")
    _first_master(story)
    _failovers(story)
    _unclean(story)
    _repeats(story)
    _cleaning(story)


def _forming(story: Story) -> None:
    h = story.history
    h.append(b"before anything")
    story.note("nothing is decided before the cluster is formed")
    h.do(ClusterFormed(h.envelope(), 1, {SETTING_UNCLEAN: "maybe"}, FIRST_FINGERPRINTS))
    h.do(ClusterFormed(h.envelope(), 1, {}, ()))
    h.do(ClusterFormed(h.envelope(), 1, {SETTING_UNCLEAN: "false"}, FIRST_FINGERPRINTS))
    h.do(ClusterFormed(h.envelope(), 1, {}, FIRST_FINGERPRINTS))
    story.note("the cluster is formed, at the third attempt and once")
    h.claim(0, "n0"), h.claim(0, "n1")
    h.append(b""), h.append(b"\xc3\x01" + bytes(8))
    h.do(ChangeSettings(h.envelope(cluster_id="other"), {}))
    h.do(ChangeSettings(h.envelope(term=0), {SETTING_UNCLEAN: "true"}))
    h.setting("unknown", "1")
    story.note("a leader; what is unreadable, foreign, stale or senseless")
    h.do(ActivateRules(h.envelope(), 1, FIRST_FINGERPRINTS))
    h.do(ActivateRules(h.envelope(), 1, ("ffffffffffffffff", *FIRST_FINGERPRINTS)))
    story.note("a schema more becomes active")


def _first_master(story: Story) -> None:
    h = story.history
    h.elect(-1, seen(1)), h.elect(1)
    story.note("nobody, then replica 1, is elected first")
    everyone = (seen(1), seen(2), seen(3))
    h.alter((1,), *everyone), h.alter((1, 2), *everyone, master=2)
    h.alter((1, 2), *everyone, master_epoch=0), h.alter((1, 2), *everyone, set_epoch=0)
    h.alter((1, 9), *everyone), h.alter((1, 2), seen(1)), h.alter((2, 3), *everyone)
    story.note("each way in which a wish for a set is refused")
    h.alter((1, 2), *everyone), h.alter((1, 2, 3), *everyone)
    story.note("the set grows")


def _failovers(story: Story) -> None:
    h = story.history
    alive = (seen(1), seen(2, offset=5), seen(3, offset=7))
    h.elect(-1, *alive), h.elect(-1, *alive, master_epoch=0)
    h.elect(-1, seen(1, **DEAD), *alive[1:], master_epoch=1, set_epoch=3)
    story.note("the master dies: 3 has the longer log")
    h.register(3, "i3-again", last_epoch=2, end_offset=9)
    h.alter((3,), *alive[:2], seen(3, incarnation="i3-again"))
    h.elect(3, seen(2, offset=10, incarnation="i2"), seen(3, incarnation="i3-again", offset=9))
    story.note("a restarted master alters nothing, and does not go on in its epoch")
    h.elect(3, *alive, designate=True), h.elect(1, *alive, designate=True)
    story.note("designated: outside the set, refused")
    h.elect(3, seen(2), seen(3, incarnation="i3-again"), designate=True)
    story.note("designated: a member deposes a live master")
    h.elect(-1, seen(1)), h.elect(-1, seen(1))
    story.note("nobody electable clears the master once")
    h.elect(-1, seen(2, epoch=2**31 - 1))
    story.note("an epoch that does not fit is not given")
    h.setting(SETTING_UNCLEAN, "true")
    h.elect(-1, seen(1))
    h.setting(SETTING_UNCLEAN, "false")
    story.note("an unclean election")


def _unclean(story: Story) -> None:
    h = story.history
    up = {i: seen(i, incarnation=f"u{i}", offset=i) for i in (1, 2)}
    h.register(2, "u2")
    h.alter((1, 2), seen(1), up[2])
    h.register(1, "u1", clean=False), h.register(2, "u2", clean=False)
    h.register(2, "u2-again", clean=False, last_epoch=4, end_offset=99)
    h.elect(1, up[1])
    story.note("both members start unclean: the first waits")
    h.elect(2, up[1], seen(2, incarnation="u2-again", epoch=4, offset=99))
    story.note("all are there: the longest wins, at risk")
    h.alter((1, 2), up[1], seen(2, incarnation="u2-again"))
    story.note("the other one catches up and counts clean again")


def _repeats(story: Story) -> None:
    h = story.history
    h.setting(SETTING_DEDUPE_WINDOW, "4")
    command = ApplyBrokerId(h.envelope(), CLUSTER, NAME, 4, "h4:10911;x")
    h.do(command), h.do(command)
    same_id = h.envelope(command_id=command.envelope.command_id)
    h.do(RegisterBroker(same_id, CLUSTER, NAME, 4, "h4:1"))
    h.claim(1, "n1")
    story.note("a command twice, its id for another command, another leader")
    h.do(replace(command, envelope=h.envelope(command_id=command.envelope.command_id)))
    story.note("its retry in another term")
    late = ApplyBrokerId(h.envelope(), CLUSTER, NAME, 9, "h9:10911;x")
    for _ in range(6):
        h.do(late)
    story.note("the same bytes until they are from before the window")
    master = seen(2, incarnation="u2-again")
    elect = ElectMaster(h.envelope(term=1), CLUSTER, NAME, -1, False, evidence=(master,))
    h.do(elect), h.do(replace(elect, envelope=h.envelope(command_id=elect.envelope.command_id)))
    story.note("refused for its term, then decided")
    h.setting(SETTING_DEDUPE_WINDOW, "10000")
    story.note("the window is widened")


def _cleaning(story: Story) -> None:
    h = story.history
    h.apply_id(4, "h4:10911;x"), h.register_java(4), h.register_java(4, "h4:20911")
    h.elect(4)
    story.note("a Java replica comes")
    h.clean(None), h.clean(()), h.clean((4,), seen(4)), h.clean((2,), seen(9)), h.clean((77,))
    story.note("cleaning: refused in each way, then the master goes")
    h.elect(1, seen(4, incarnation=None)), h.clean((3, 4), living=True)
    h.clean(None, living=True), h.clean(None), h.elect(1), h.alter((1,))
    story.note("cleaning down to the tombstone, which nobody finds")
    h.apply_id(5), h.register(5), h.elect(5)
    story.note("a set that begins again goes on with ids and epochs")


def main() -> int:
    """Write both files; refuse to change released lines."""
    story = Story()
    tell(story)
    story.replay_digests()
    text = "".join(json.dumps(line) + "\n" for line in story.lines)
    target = HERE / "history.jsonl"
    if target.exists() and not text.startswith(target.read_text("ascii")):
        print("refused: released lines would change; delete history.jsonl if that is meant")
        return 1
    target.write_text(text, "ascii")
    state = canonical.state_text(story.history.folder.state)
    expected = {"digest": story.history.folder.digest.hex(), "state": state}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=2) + "\n", "ascii")
    print(f"{len(story.lines)} records, digest {expected['digest']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

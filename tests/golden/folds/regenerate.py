"""Writes the golden histories: `python tests/golden/folds/regenerate.py` from the project's root.

`history.jsonl` is told under rules 1, `history-2.jsonl` under rules 2, `history-upgrade.jsonl`
begins under 1 and goes on under 2, `history-3.jsonl` begins under 2 and goes on under 3. Each has
one record of the command log per line: its offset, its bytes in hex, what it is there for, and the
digest after it. `expected*.json` have the last digest and the canonical state.

Run it only to lengthen a history, by adding to the end of its story: lines that stand in a
released file must come out as they were. The script says so and stops if they do not.
"""

import json
import sys
from pathlib import Path

from msgspec.structs import replace

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from events.codec import COMMAND_FINGERPRINTS
from events.commands import (
    ActivateRules,
    ApplyBrokerId,
    ChangeSettings,
    ClusterFormed,
    ElectMaster,
    RegisterBroker,
)
from processors.fold import canonical
from processors.fold.rules import SETTING_DEDUPE_WINDOW, SETTING_UNCLEAN
from tests.support.control_history import (
    CLUSTER,
    FIRST_FINGERPRINTS,
    NAME,
    SECOND_FINGERPRINTS,
    History,
    seen,
)

NEW_SETTING = "commandsPerSetPerSecond"
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
        from processors.fold.folder import Folder

        folder = Folder()
        for line, record in zip(self.lines, self.history.records, strict=True):
            line["digest"] = folder.apply(folder.next_offset, record).outcome.digest.hex()


def tell_first(story: Story) -> None:
    """Under rules 1: each kind of command, change, refusal and label that they know occurs."""
    _forming(story, 1, FIRST_FINGERPRINTS)
    _tell(story)


def tell_second(story: Story) -> None:
    """Under rules 2: the same records, and what these rules know beside them."""
    _forming(story, 2, SECOND_FINGERPRINTS)
    _tell(story)
    _imports(story)
    _told_apart(story)


def tell_upgrade(story: Story) -> None:
    """Rules 1 until the middle of a set's life, then rules 2."""
    h = story.history
    h.do(ClusterFormed(h.envelope(), 1, {SETTING_UNCLEAN: "true"}, FIRST_FINGERPRINTS))
    h.claim(0, "n0")
    for broker_id in (1, 2, 3):
        h.apply_id(broker_id), h.register(broker_id)
    h.elect(1), h.alter((1, 2), seen(1), seen(2)), h.elect(-1, seen(3))
    story.note("a set under rules 1, its master elected at risk")
    h.import_set(1, broker_name="broker-b"), h.setting(NEW_SETTING, "7")
    story.note("what rules 1 do not know")
    h.do(ActivateRules(h.envelope(), 1, SECOND_FINGERPRINTS))
    h.import_set(1, broker_name="broker-b")
    story.note("the schema alone makes no rule")
    h.do(ActivateRules(h.envelope(), 2, FIRST_FINGERPRINTS))
    h.do(ActivateRules(h.envelope(term=0), 2, SECOND_FINGERPRINTS))
    h.do(ActivateRules(h.envelope(), 2, SECOND_FINGERPRINTS))
    story.note("rules 2: not without their schemas, not by a former leader")
    h.do(ActivateRules(h.envelope(), 1, SECOND_FINGERPRINTS))
    h.do(ActivateRules(h.envelope(), 2, SECOND_FINGERPRINTS))
    story.note("no way back")
    h.import_set(1, broker_name="broker-b"), h.setting(NEW_SETTING, "7")
    story.note("known by now")
    _told_apart(story)


def tell_third(story: Story) -> None:
    """Rules 2 with a set of three, then rules 3: each place where they decide otherwise."""
    h = story.history
    h.do(ClusterFormed(h.envelope(), 2, {}, SECOND_FINGERPRINTS))
    h.claim(0, "n0")
    for broker_id in (1, 2, 3):
        h.apply_id(broker_id), h.register(broker_id)
    h.elect(1), h.alter((1, 2, 3), seen(1), seen(2), seen(3))
    h.register(2, "told", min_in_sync=2)
    story.note("a set under rules 2, which cannot read what tells a minimum")
    h.do(ActivateRules(h.envelope(), 3, SECOND_FINGERPRINTS))
    h.do(ActivateRules(h.envelope(), 3, COMMAND_FINGERPRINTS))
    story.note("rules 3: not without their schemas")
    for broker_id in (1, 2, 3):
        h.register(broker_id, f"u{broker_id}", last_epoch=1, end_offset=100, min_in_sync=2)
    up = {i: seen(i, incarnation=f"u{i}", offset=100 + i) for i in (1, 2, 3)}
    h.elect(-1, up[2]), h.elect(-1, up[1])
    story.note("masters are left out below the minimum, remembered, and elected")
    h.alter((1, 2), up[1], up[2])
    story.note("with its minimum the set remembers nobody")
    h.alter((1, 2, 3), up[1], up[2], up[3]), h.alter((1, 2, 3), up[1], up[2], lost=(3,))
    h.alter((1, 2), up[1], up[2], lost=(3,)), h.alter((1, 2), up[1], up[2], lost=(1,))
    story.note(
        "a member leaves that the master proved to have lost data, once and never the master"
    )
    h.alter((1,), up[1]), h.clean((2,))
    story.note("a holder is not cleaned")
    h.register(2, "v2", last_epoch=0, end_offset=5)
    h.register(3, "v3", last_epoch=2**31 - 5)
    story.note("a log that went back, and an epoch out of reach")
    h.register(1, "v1", clean=False, last_epoch=4, end_offset=50)
    h.elect(
        -1,
        seen(1, incarnation="v1", offset=50, epoch=4),
        seen(2, incarnation="v2", epoch=0, offset=5),
    )
    dark = (
        seen(1, incarnation="v1", offset=50, epoch=4),
        seen(2, incarnation="v2", epoch=0, offset=5),
    )
    h.setting("atRiskWaitMs", "60000"), h.elect(-1, *dark, waited_ms=59_999)
    h.elect(
        -1,
        seen(1, incarnation="v1", offset=50, epoch=4),
        seen(2, incarnation="v2", epoch=0, offset=5),
        up[3],
    )
    story.note("at risk: every former member is waited for and compared")
    now = h.set.master_epoch
    h.alter((1, 2), *(seen(i, incarnation=f"v{i}", offset=60, epoch=now) for i in (1, 2)))
    h.register(2, "w2", last_epoch=now, end_offset=59), h.register_java(3)
    h.alter(
        (1, 2),
        *(seen(i, incarnation=start, offset=60, epoch=now) for i, start in ((1, "v1"), (2, "w2"))),
    )
    h.register(2, "w3", last_epoch=now, end_offset=65, heard_epoch=now, heard_offset=66)
    java = seen(3, incarnation=None, epoch=now, offset=70)
    h.alter((1, 3), seen(1, incarnation="v1", offset=70, epoch=now), java)
    h.register_java(3), h.elect(-1, replace(java, max_offset=69))
    h.elect(-1, seen(1, incarnation="v1", offset=70, epoch=now))
    story.note("starts below what members showed, told and untold")
    for broker_id in (1, 2, 3):
        h.register(broker_id, f"x{broker_id}", clean=False, last_epoch=8, end_offset=80)
    h.elect(
        -1, *(seen(i, incarnation=f"x{i}", epoch=8, offset=80) for i in (1, 2)), waited_ms=60_000
    )
    story.note("at risk: waited for as long as the setting says, and no longer")
    h.clean(None, seen(3)), h.clean((1, 2, 3), living=True)
    h.apply_id(4), h.apply_id(5), h.register(4, min_in_sync=3), h.register(5, min_in_sync=3)
    h.elect(4, seen(5, epoch=7, offset=9), seen(4, epoch=-1, offset=0))
    story.note("a set begins anew with its longest log")
    _doubts(story)


def _tell(story: Story) -> None:
    h = story.history
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


def _forming(story: Story, rules: int, marks: tuple[str, ...]) -> None:
    h = story.history
    h.append(b"before anything")
    story.note("nothing is decided before the cluster is formed")
    h.do(ClusterFormed(h.envelope(), rules, {SETTING_UNCLEAN: "maybe"}, marks))
    h.do(ClusterFormed(h.envelope(), rules, {}, ()))
    h.do(ClusterFormed(h.envelope(), rules, {SETTING_UNCLEAN: "false"}, marks))
    h.do(ClusterFormed(h.envelope(), rules, {}, marks))
    story.note("the cluster is formed, at the third attempt and once")
    h.claim(0, "n0"), h.claim(0, "n1")
    h.append(b""), h.append(b"\xc3\x01" + bytes(8))
    h.do(ChangeSettings(h.envelope(cluster_id="other"), {}))
    h.do(ChangeSettings(h.envelope(term=0), {SETTING_UNCLEAN: "true"}))
    h.setting("unknown", "1")
    story.note("a leader; what is unreadable, foreign, stale or senseless")
    h.do(ActivateRules(h.envelope(), rules, marks))
    h.do(ActivateRules(h.envelope(), rules, ("ffffffffffffffff", *marks)))
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


def _imports(story: Story) -> None:
    h = story.history
    h.import_set(1, 2), h.import_set(1, broker_name="")
    story.note("an import over a set that lives, and one without a name")
    h.import_set(2, 1, 4, broker_name="broker-b", evidence_epoch=9)
    h.import_set(2, 1, 4, broker_name="broker-b", evidence_epoch=9, sync_state_set_epoch=10)
    h.import_set(1, 2, 4, broker_name="broker-b", evidence_epoch=9)
    story.note("a set comes over, is read again, and does not fall back")
    h.do(
        ElectMaster(
            h.envelope(), CLUSTER, "broker-b", 4, False, evidence=(seen(4, incarnation=None),)
        )
    )
    h.import_set(2, 1, 4, broker_name="broker-b", master_epoch=50, sync_state_set_epoch=50)
    story.note("once it is run from here nothing is imported over it")
    h.do(ApplyBrokerId(h.envelope(), CLUSTER, "broker-b", 4, ""))
    h.clean(None, living=True)
    (
        h.import_set(1, 2, master_epoch=9),
        h.import_set(6, 7, next_broker_id=8, master_epoch=90, sync_state_set_epoch=90),
    )
    story.note("a tombstone is not undercut")


def _doubts(story: Story) -> None:
    h = story.history
    h.doubt(broker_name="broker-z"), h.doubt(0), h.doubt(1001)
    story.note("a doubt about nobody, one that lifts nothing, and one that lifts too much")
    h.alter((4, 5), seen(5), seen(4))
    h.doubt()
    epoch = h.set.master_epoch
    four, five = seen(4, epoch=8, offset=20), seen(5, epoch=8, offset=30)
    (
        h.elect(-1, five),
        h.alter((4, 5), four, five, master_epoch=8),
        h.register(4, "w4", last_epoch=8, end_offset=20),
    )
    story.note(
        "a set that is doubted waits for all its replicas, whoever leads according to himself"
    )
    h.elect(-1, seen(4, incarnation="w4", epoch=8, offset=20), five)
    story.note(f"all are there, above epoch {epoch}: the longest leads without risk")
    h.doubt(5), h.register(4, "x4", clean=False, last_epoch=8, end_offset=10)
    h.elect(-1, seen(4, incarnation="x4", epoch=8, offset=10), five)
    story.note("one may have lost something: at risk")


def _told_apart(story: Story) -> None:
    """Each place where rules 2 decide otherwise than rules 1."""
    h = story.history
    h.clean(None, living=True)
    command = ApplyBrokerId(h.envelope(), "OtherCluster", NAME, h.set.next_broker_id, "x:1;y")
    h.do(command)
    story.note("a set that begins again belongs to the cluster that begins it")
    java = command.applied_broker_id
    first, second = java + 1, java + 2
    h.register_java(java)
    for broker_id in (first, second):
        h.apply_id(broker_id), h.register(broker_id)
    h.elect(java)
    h.alter((java, first, second), seen(java, incarnation=None), seen(first), seen(second))
    h.elect(-1, seen(first, offset=9), seen(second, offset=5))
    story.note("after a Java master the set is the new master alone")
    h.elect(-1, seen(second, epoch=70, incarnation="before"))
    h.elect(first, seen(second, epoch=80, incarnation="before"))
    story.note("an epoch above what an earlier start reported")
    (
        h.setting(SETTING_UNCLEAN, "true"),
        h.elect(-1, seen(second, epoch=81)),
        h.setting(SETTING_UNCLEAN, "false"),
    )
    h.alter((java, second), seen(java, incarnation=None), seen(second))
    story.note("a mastership at risk is in the state")
    h.elect(-1, seen(java, incarnation=None))
    story.note("and not any more")
    h.elect(-1)
    (
        h.setting("massSilenceHoldMs", "600001"),
        h.setting(NEW_SETTING, "9"),
        h.setting("isProcessReadEvent", "true"),
    )
    story.note("settings of rules 2")


STORIES = {"": tell_first, "-2": tell_second, "-upgrade": tell_upgrade, "-3": tell_third}


def main() -> int:
    """Write all files; refuse to change released lines."""
    for suffix, tell in STORIES.items():
        story = Story()
        tell(story)
        story.replay_digests()
        text = "".join(json.dumps(line) + "\n" for line in story.lines)
        target = HERE / f"history{suffix}.jsonl"
        if target.exists() and not text.startswith(target.read_text("ascii")):
            print(f"refused: released lines would change; delete {target.name} if that is meant")
            return 1
        target.write_text(text, "ascii")
        state = canonical.state_text(story.history.folder.state)
        expected = {"digest": story.history.folder.digest.hex(), "state": state}
        (HERE / f"expected{suffix}.json").write_text(json.dumps(expected, indent=2) + "\n", "ascii")
        print(f"{target.name}: {len(story.lines)} records, digest {expected['digest']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Store folders of majority replication that change hands between DLedger 0.3.1.2 and ours.

Responsible for: one folder, two owners in turn, after orderly ends and after kills: every entry,
the begin, the end, what is committed, term and vote; bytes of both kinds side by side; recording
what Java wrote for tests/golden/dledger. Refuses to know: replication.

    python -m tests.interop.dledger_store FOLDER      records there
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from brokers.majority.entry import MAGIC_NORMAL, Entry, Place
from brokers.majority.log_port import Taken, TermAndVote
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.store.folder import MajorityFolder, MajorityStoreConfig, folder_name
from infra.problems import Problem
from tests.interop.java_rocketmq import SMALL, fetch_jars
from tests.interop.stage import Row, Stage, compiler

PROGRAM = Path(__file__).resolve().parent / "DLedgerStore.java"
MEMBER = "n0"
CONFIG = MajorityStoreConfig(data_file_bytes=4096, index_file_bytes=1024)
JARS = ("dledger", "slf4j-api", "fastjson")
"""What the store's classes load, of the jars of a RocketMQ server."""
UNMAPS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
"""Without it DLedger cannot take a file away that it has mapped."""
TURNS = 12
SEED = 21
_CRCS = slice(36, 44)


class Dledger:
    """DLedger's own store classes, compiled and started at first use: one process for many folders,
    one after the other.
    """

    def __init__(self, work: Path, say: Callable[[str], None]) -> None:
        jars, classes = fetch_jars(say), work / "dledger-classes"
        used = [path for name in JARS for path in sorted(jars.glob(f"{name}-[0-9]*.jar"))]
        class_path = os.pathsep.join(map(str, used))
        if not classes.exists():
            classes.mkdir(parents=True)
            command = [compiler(), "-cp", class_path, "-d", str(classes), str(PROGRAM)]
            subprocess.run(command, check=True)
        words = ["java", "-Xmx128m", *SMALL, *UNMAPS, "-cp", f"{class_path}{os.pathsep}{classes}"]
        sizes = (str(CONFIG.data_file_bytes), str(CONFIG.index_file_bytes))
        self._command = [*words, "DLedgerStore", MEMBER, *sizes]
        self._log = work / "dledger.log"
        self._process: subprocess.Popen[str] | None = None

    def _say(self, line: str) -> str:
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    bufsize=1,
                )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        if line == "halt":
            self._process.wait()
            return "ok"
        return self._process.stdout.readline().strip()

    def live(self, base: Path, commands: Sequence[str]) -> list[str]:
        """Opens a folder: what it found, then an answer for each command; the last one says how the
        folder is left. Problem when a command failed.
        """
        assert commands[-1] in ("shutdown", "abandon", "halt"), "a folder is left somehow"
        answers = []
        for command in (f"open {base}", *commands):
            answers.append(self._say(command))
            if not answers[-1].startswith("ok"):
                raise Problem(f"DLedger refused {command[:80]}", answers[-1] or f"see {self._log}")
        return [answer[3:] for answer in answers]

    def end(self) -> None:
        """It ends with its input."""
        if self._process is not None and self._process.poll() is None:
            self._process.communicate()

    def entries(self, base: Path) -> tuple[str, list[Entry]]:
        """(what it says of itself, every entry) of a folder, opened and left in order."""
        said = self.live(base, ["shutdown"])[0]
        begin, end = map(int, said.split()[:2])
        wanted = [f"entry {index}" for index in range(begin, end + 1)] if begin >= 0 else []
        return said, [shown(line) for line in self.live(base, [*wanted, "shutdown"])[1:-1]]


def shown(line: str) -> Entry:
    """An entry as the program shows it."""
    magic, index, term, position, channel, chain, body_crc, body = line.split(" ")
    data = b"" if body == "-" else base64.b64decode(body)
    numbers = int(index), int(term), int(position)
    return Entry(*numbers, data, int(magic), int(channel), int(chain), int(body_crc))


def words_of(entry: Entry) -> str:
    """The entry as the program takes it."""
    numbers = (
        entry.index,
        entry.term,
        entry.position,
        entry.channel,
        entry.chain_crc,
        entry.body_crc,
    )
    return f"{' '.join(map(str, numbers))} {_word(entry.body)}"


def _word(body: bytes) -> str:
    return base64.b64encode(body).decode() or "-"


def bodies(seed: int, count: int) -> list[bytes]:
    """Of many sizes; none at all, and one that leaves no room for filler, among them."""
    draw = random.Random(seed)
    sizes = [0, 1, 4096 - 48 - 8, *(draw.choice((0, 7, 100, 500, 1500)) for _ in range(count))]
    return [draw.randbytes(size) for size in sizes[:count]]


# -- what both say of a folder


def java_said(first: int, last: Place, committed: int, terms: TermAndVote) -> str:
    return f"{first} {last.index} {last.term} {committed} {terms.term} {terms.voted_for or 'null'}"


def bare(entries: Sequence[Entry]) -> list[tuple[int, int, int, int, int, bytes]]:
    """Everything but the checksums, which Java does not make."""
    return [(e.magic, e.index, e.term, e.position, e.channel, e.body) for e in entries]


def appended(log: EntryLog, term: int, body: bytes) -> Entry:
    return log.append_as_leader(term, len(body), lambda position: body)


def own_entries(log: EntryLog) -> list[Entry]:
    found = [log.get(index) for index in range(max(log.first_index, 0), log.last.index + 1)]
    return [entry for entry in found if entry is not None]


def opened(base: Path, same_boot: bool = True) -> MajorityFolder:
    return MajorityFolder(base / folder_name(MEMBER), CONFIG, same_boot=same_boot)


def without_checksums(base: Path, name: str) -> bytes:
    """All bytes of the data or index files; of data with the checksums of each entry zeroed."""
    folder = base / folder_name(MEMBER) / name
    data = bytearray(b"".join(path.read_bytes() for path in sorted(folder.iterdir())))
    at = 0
    while name == "data" and at + 48 <= len(data):
        magic, size = (
            int.from_bytes(data[at + n : at + n + 4], "big", signed=True) for n in (0, 4)
        )
        if magic == MAGIC_NORMAL:
            data[at + _CRCS.start : at + _CRCS.stop] = bytes(8)
        elif not size:
            break
        at += size
    return bytes(data)


# -- the scenario


def run(stage: Stage) -> list[Row]:
    """One folder with two owners, and two folders beside each other."""
    work = stage.work / "dledger"
    work.mkdir()
    java = Dledger(work, stage.say)
    try:
        return _rows(java, work)
    finally:
        java.end()


def _rows(java: Dledger, work: Path) -> list[Row]:
    return [
        *(_same_bytes(java, work / f"bytes-{seed}", seed) for seed in (1, 2)),
        *(_in_turn(java, work / f"turns-{seed}", seed) for seed in (SEED, SEED + 1)),
        _begins_later(java, work / "later"),
        _checksums_pass_through(java, work / "checksums"),
    ]


def _row(what: str, flaws: Sequence[str], good: str) -> Row:
    return Row(what, "; ".join(flaws) or good, not flaws)


def _same_bytes(java: Dledger, work: Path, seed: int) -> Row:
    """The same entries written by each kind."""
    written = bodies(seed, 40)
    java.live(
        work / "java",
        ["lead 3", *(f"append {_word(body)}" for body in written), "commit 30", "shutdown"],
    )
    own = opened(work / "ours")
    own.terms.save(TermAndVote(3, MEMBER))
    for body in written:
        appended(own.log, 3, body)
    own.log.commit(30)
    own.close()
    flaws = [
        f"{name} differs"
        for name in ("data", "index")
        if without_checksums(work / "java", name) != without_checksums(work / "ours", name)
    ]
    return _row("written by each kind", flaws, "the same bytes, but for checksums")


class _Turns:
    """One folder, its owners in turn, and what should be in it."""

    def __init__(self, java: Dledger, base: Path, seed: int) -> None:
        self._java, self._base, self._draw = java, base, random.Random(seed)
        self.model: list[Entry] = []
        self.committed, self.term = -1, 0
        self.flaws: list[str] = []

    def java_turn(self) -> None:
        self.term += 1
        end = self._draw.choice(("shutdown", "abandon", "halt"))
        commands, cut_to = [f"lead {self.term}"], self._cut()
        if cut_to is not None:
            entry = self._replacement(cut_to)
            commands = [f"follow {self.term} other", f"truncate {words_of(entry)}"]
            commands += [f"lead {self.term + 1}"]
            self.term += 1
            self.model[cut_to:] = [entry]
        more = bodies(self._draw.randrange(1 << 20), self._draw.randrange(1, 20))
        appended = [f"append {_word(body)}" for body in more]
        answers = self._java.live(self._base, [*commands, *appended, end])
        for body, answer in zip(more, answers[1 + len(commands) :], strict=False):
            index, position = map(int, answer.split())
            self.model.append(Entry(index, self.term, position, body))

    def own_turn(self) -> None:
        own = opened(self._base)
        self._compare("ours", own_entries(own.log))
        self.term = own.terms.state.term + 1
        own.terms.save(TermAndVote(self.term, MEMBER))
        cut_to = self._cut()
        if cut_to is not None:
            entry = self._replacement(cut_to)
            own.log.truncate_from(cut_to)
            self.model[cut_to:] = [entry]
            if (taken := own.log.append_as_follower(entry)) is not Taken.APPENDED:
                self.flaws.append(f"ours did not take entry {cut_to}: {taken.value}")
        for body in bodies(self._draw.randrange(1 << 20), self._draw.randrange(1, 20)):
            self.model.append(appended(own.log, self.term, body))
        self.committed = own.log.commit(len(self.model) - self._draw.randrange(1, 6))
        own.close()
        said, entries = self._java.entries(self._base)
        self._compare("Java", entries)
        state = TermAndVote(self.term, MEMBER)
        wanted = java_said(0, self.model[-1].place, self.committed, state)
        if said != wanted:
            self.flaws.append(f"Java found {said}, it is {wanted}")

    def _cut(self) -> int | None:
        if len(self.model) - 1 <= self.committed or self._draw.random() < 0.4:
            return None
        return self._draw.randrange(self.committed + 1, len(self.model))

    def _replacement(self, index: int) -> Entry:
        """Another leader's entry, as long as the one it replaces."""
        old = self.model[index]
        return Entry(index, self.term, old.position, self._draw.randbytes(len(old.body)))

    def _compare(self, who: str, entries: Sequence[Entry]) -> None:
        if bare(entries) != bare(self.model):
            self.flaws.append(
                f"{who} found {len(entries)} entries that are not the {self.model[-1:]}"
            )


def _in_turn(java: Dledger, base: Path, seed: int) -> Row:
    """Java ends in order or is killed; cuts and new terms on both sides."""
    turns = _Turns(java, base, seed)
    for number in range(TURNS):
        (turns.own_turn if number % 2 else turns.java_turn)()
    good = f"{TURNS} turns, {len(turns.model)} entries, term {turns.term}"
    return _row("one folder, owners in turn", turns.flaws, good)


def _begins_later(java: Dledger, base: Path) -> Row:
    """Old files are gone, or were never here."""
    own = opened(base)
    for body in bodies(5, 60):
        appended(own.log, 1, body)
    own.terms.save(TermAndVote(1, MEMBER))
    own.log.flush()
    own.log.commit(50)
    own.log.trim(own.log.data.file_starts[3])()
    wanted = own_entries(own.log)
    said = java_said(own.log.first_index, own.log.last, 50, own.terms.state)
    own.close()
    found, entries = java.entries(base)
    flaws = [] if bare(entries) == bare(wanted) else ["Java has other entries"]
    flaws += [] if said == found else [f"Java found {found}, it is {said}"]
    again = opened(base)
    flaws += [] if bare(own_entries(again.log)) == bare(wanted) else ["ours has other entries"]
    flaws += [] if again.log.owed is None else ["ours misses something"]
    again.close()
    flaws += _begun_anew(java, base / "follower", wanted)
    return _row("a log that begins later", flaws, f"begins at {wanted[0].index} for both")


def _begun_anew(java: Dledger, base: Path, sent: Sequence[Entry]) -> list[str]:
    """A follower that begins where its leader does, inside an index file."""
    follower = opened(base)
    follower.terms.save(TermAndVote(1))
    taken = [follower.log.restart_at(sent[0])]
    taken += [follower.log.append_as_follower(entry) for entry in sent[1:]]
    follower.log.commit(sent[-1].index)
    follower.close()
    _, entries = java.entries(base)
    flaws = [] if set(taken) == {Taken.APPENDED} else [f"ours did not take all: {taken}"]
    return flaws + ([] if bare(entries) == bare(sent) else ["Java misses what began anew"])


def _checksums_pass_through(java: Dledger, base: Path) -> Row:
    """A Java follower keeps our leader's checksums; ours makes its own for a Java leader's."""
    leader = opened(base / "leader")
    made = [appended(leader.log, 1, body) for body in bodies(6, 30)]
    leader.close()
    java.live(base, ["follow 1 other", *(f"take {words_of(entry)}" for entry in made), "shutdown"])
    _, kept = java.entries(base)
    flaws = [] if kept == made else ["Java's follower has other entries or checksums"]
    follower = opened(base / "follower")
    for entry in made:
        plain = Entry(entry.index, entry.term, entry.position, entry.body)
        if (taken := follower.log.append_as_follower(plain)) is not Taken.APPENDED:
            flaws.append(f"ours did not take entry {entry.index}: {taken.value}")
    if own_entries(follower.log) != made:
        flaws.append("two replicas made different checksums of one log")
    follower.close()
    return _row("checksums", flaws, "kept by Java, the same on every replica of ours")


# -- recording


def record(to: Path) -> None:
    """Folders that Java wrote: `stopped` in order, `killed` after a cut whose bytes it left."""
    with tempfile.TemporaryDirectory() as work:
        java = Dledger(Path(work), print)
        expected = {}
        for name, end in (("stopped", "shutdown"), ("killed", "halt")):
            base = Path(work) / name
            append = [f"append {_word(body)}" for body in bodies(7, 40)]
            java.live(base, ["lead 3", *append, "commit 20", "shutdown"])
            if name == "killed":
                _, entries = java.entries(base)
                new = Entry(25, 4, entries[25].position, bytes(len(entries[25].body)))
                java.live(base, ["follow 4 other", f"truncate {words_of(new)}", end])
            shutil.rmtree(to / name, ignore_errors=True)
            shutil.copytree(base, to / name)
            said, entries = java.entries(base)
            expected[name] = {"said": said, "entries": [words_of(entry) for entry in entries]}
        java.end()
        (to / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))

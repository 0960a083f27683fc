"""
The released Java client 5.3.3 against Regent while its master is killed twice (`make interop`).

Responsible for: resolving the client's jars by lock, compiling the small program beside this file, running it with
default and with tuned settings, killing masters, and judging from the files the program wrote.
Refuses to know: how Regent works inside; it uses the `regent` command line as an operator would.

Exit codes: 0 nothing acknowledged was lost; 1 something was, or a step failed; 2 no Java compiler, or wrong usage.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from infra import jar_store  # noqa: E402
from infra.problems import Problem  # noqa: E402

LOCK = HERE / "rocketmq-client.lock"
PROGRAM = HERE / "InteropClient.java"
MESSAGES = 20_000
RATE_PER_S = 800
KILL_AT = (0.25, 0.6)
WHOLE_WITHIN_S = 90.0
SEND_WITHIN_S = 300.0
CONSUME_WITHIN_S = 90.0
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "tuned": {"pollMs": "200", "timeoutMs": "500"},
}


@dataclass(frozen=True, slots=True)
class Outage:
    """From the invocation of the first failed call to the response of the first successful one begun after it."""

    killed: str
    rto_ms: int
    failed_calls: int
    first_failure: str
    longest_gap_ms: int


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compiler() -> str:
    """The Java compiler at hand; exit 2 where there is only a JRE."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=f"{home}/bin") if home else None
    found = found or shutil.which("javac")
    if not found:
        raise Problem("no Java compiler: make interop needs a JDK 17 or newer, a JRE is not enough", "install a JDK or set JAVA_HOME", 2)
    return found


def build(work: Path) -> str:
    """Fetch the client's jars, compile the program; returns the class path."""
    jars = jar_store.cache_dir() / "rocketmq-client"
    fetched = jar_store.fetch_lock(LOCK, jars, jar_store.base_urls, say)
    say(f"rocketmq-client 5.3.3: {len(jar_store.read_lock(LOCK))} jars in {jars}, {fetched} fetched")
    classes = work / "classes"
    classes.mkdir(parents=True)
    subprocess.run([compiler(), "-cp", f"{jars}/*", "-d", str(classes), str(PROGRAM)], check=True)
    return f"{jars}/*:{classes}"


class Cluster:
    """A Regent cluster driven by its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._regent = [sys.executable, "-m", "infra"]

    def _run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._regent, *words, "--dir", str(self.folder)], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=check
        )

    def up(self) -> None:
        # The tables have nothing to do with this run; without Spark two cores are calmer.
        self._run("up", "--detach", "--no-land")

    def down(self) -> None:
        self._run("down", check=False)

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self._run("status", "--json").stdout))

    def name_server(self) -> str:
        return str(self.status()["name_servers"][0])

    def wait_whole(self) -> None:
        """Every replica in the SyncStateSet, one master."""
        deadline = time.monotonic() + WHOLE_WITHIN_S
        while time.monotonic() < deadline:
            one = self.status()["sets"].get("broker-a", {})
            if one.get("master") and len(one.get("sync_state_set", [])) == len(one.get("members", ())) >= 2:
                return
            time.sleep(0.5)
        raise Problem(f"the set is not whole {WHOLE_WITHIN_S:.0f} s after a kill", "look at 'regent status'")

    def kill_master(self) -> tuple[str, int]:
        """`kill -9` of the master's process; returns its name and the wall clock in ms."""
        for process in self.status()["processes"]:
            if process["kind"] == "broker" and (process["status"] or {}).get("role") == "MASTER":
                at_ms = int(time.time() * 1000)
                os.kill(process["pid"], signal.SIGKILL)
                return process["name"], at_ms
        raise Problem("no master to kill", "look at 'regent status'")


def read_ledger(path: Path) -> list[tuple[int, int, int, str]]:
    """(sequence, start ms, end ms, outcome) of each complete line."""
    rows = []
    for line in path.read_text().splitlines():
        parts = line.split(",")
        if len(parts) == 5:
            rows.append((int(parts[0]), int(parts[2]), int(parts[3]), parts[4]))
    return rows


def outage_after(rows: list[tuple[int, int, int, str]], name: str, begun_ms: int, ended_ms: int) -> Outage:
    """The outage that a kill between the two times caused; rto 0 when no call failed."""
    window = [row for row in rows if begun_ms - 2_000 <= row[1] < ended_ms]
    failed = sorted(row[1:] for row in window if row[3] != "SEND_OK" and row[2] >= begun_ms)
    answers = sorted(row[2] for row in window if row[3] == "SEND_OK" and row[2] >= begun_ms - 500)
    gap = max((b - a for a, b in zip(answers, answers[1:], strict=False)), default=0)
    if not failed:
        return Outage(name, 0, 0, "", gap)
    first = failed[0][0]
    successes = sorted((row[1], row[2]) for row in rows if row[3] == "SEND_OK" and row[1] >= first)
    rto = min((end for _, end in successes), default=first) - first
    return Outage(name, rto, len(failed), failed[0][2], gap)


def run_once(cluster: Cluster, class_path: str, work: Path, label: str, extra: dict[str, str], messages: int) -> dict[str, Any]:
    """Send and consume `messages` with one set of client settings while the master dies twice."""
    ledger, received = work / f"{label}-ledger.csv", work / f"{label}-received.csv"
    name_server, topic = cluster.name_server(), f"Interop-{label}"
    java = ["java", "-cp", class_path, "InteropClient"]
    # The first message creates the topic, so that the consumer finds a route at once.
    first = subprocess.run(
        [*java, "mode=produce", f"namesrv={name_server}", f"topic={topic}", "count=1", "threads=1", f"ledger={work / 'first.csv'}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120, check=False,
    )  # fmt: skip
    if first.returncode != 0:
        raise Problem(f"the first message was not stored: {first.stdout.strip()}", f"look into the logs below {cluster.folder}")
    poll = [f"{key}={value}" for key, value in extra.items() if key == "pollMs"]
    consumer = subprocess.Popen(
        [*java, "mode=consume", f"namesrv={name_server}", f"topic={topic}", f"group=interop-{label}", f"received={received}", *poll],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    producer = subprocess.Popen(
        [*java, "mode=produce", f"namesrv={name_server}", f"topic={topic}", f"count={messages}", f"rate={RATE_PER_S}",
         f"ledger={ledger}", *[f"{key}={value}" for key, value in extra.items()]],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        kills = _kill_twice(cluster, ledger, messages, producer)
        output, _ = producer.communicate(timeout=SEND_WITHIN_S)
        rows = read_ledger(ledger)
        acknowledged = {row[0] for row in rows if row[3] == "SEND_OK"}
        got = _wait_consumed(received, acknowledged)
        consumer_output, _ = consumer.communicate(input="", timeout=60)
    finally:
        for child in (producer, consumer):
            if child.poll() is None:
                child.kill()
                child.wait()
    return _verdict(label, rows, acknowledged, got, kills, f"{output}{consumer_output}")


def _kill_twice(cluster: Cluster, ledger: Path, messages: int, producer: subprocess.Popen[str]) -> list[tuple[str, int]]:
    kills: list[tuple[str, int]] = []
    for share in KILL_AT:
        _until(lambda: ledger.exists() and sum(1 for _ in ledger.open()) >= messages * share, producer, "sending")
        if kills:
            cluster.wait_whole()
        kills.append(cluster.kill_master())
        say(f"  kill -9 {kills[-1][0]}")
    return kills


def _until(ready: Callable[[], bool], producer: subprocess.Popen[str], what: str) -> None:
    deadline = time.monotonic() + SEND_WITHIN_S
    while not ready():
        if producer.poll() is not None:
            raise Problem(f"the producer ended early while {what}", "see its ledger")
        if time.monotonic() > deadline:
            raise Problem(f"{what} takes longer than {SEND_WITHIN_S:.0f} s", "look at 'regent status'")
        time.sleep(0.2)


def _wait_consumed(received: Path, acknowledged: set[int]) -> list[tuple[int, int, int]]:
    """(sequence, queue, offset) of everything received, once all that was acknowledged is there or time is up."""
    deadline = time.monotonic() + CONSUME_WITHIN_S
    while True:
        lines = received.read_text().splitlines() if received.exists() else []
        rows = [tuple(int(part) for part in line.split(",")[:3]) for line in lines if line.count(",") == 3]
        if acknowledged <= {row[0] for row in rows} or time.monotonic() > deadline:
            return rows  # type: ignore[return-value]
        time.sleep(0.5)


def _verdict(
    label: str, rows: list[tuple[int, int, int, str]], acknowledged: set[int], got: list[tuple[int, int, int]],
    kills: list[tuple[str, int]], output: str,
) -> dict[str, Any]:  # fmt: skip
    ends = [at for _, at in kills[1:]] + [max(row[2] for row in rows) + 1]
    outages = [outage_after(rows, name, at, end) for (name, at), end in zip(kills, ends, strict=True)]
    times = sorted(row[2] - row[1] for row in rows if row[3] == "SEND_OK")
    places = {(queue, offset) for _, queue, offset in got}
    return {
        "settings": label,
        "client": [line for line in output.splitlines() if line.startswith("settings")],
        "sent": len({row[0] for row in rows}),
        "acknowledged": len(acknowledged),
        "received": len({row[0] for row in got}),
        "lost": len(acknowledged - {row[0] for row in got}),
        "stored_twice": len(places) - len({row[0] for row in got}),
        "call_p50_ms": times[len(times) // 2],
        "call_p99_ms": times[bisect.bisect(range(len(times)), int(len(times) * 0.99)) - 1],
        "outages": [asdict(outage) for outage in outages],
    }


def show(result: dict[str, Any]) -> None:
    print(f"\nclient settings: {result['settings']}")
    for line in result["client"]:
        print(f"  {line}")
    print(
        f"  sent {result['sent']}, acknowledged {result['acknowledged']}, received {result['received']}, "
        f"LOST {result['lost']}, stored twice {result['stored_twice']}, call p50 {result['call_p50_ms']} ms p99 {result['call_p99_ms']} ms"
    )
    for one in result["outages"]:
        failed = f"{one['failed_calls']} failed calls, first {one['first_failure']}" if one["failed_calls"] else "no failed call"
        print(f"  kill -9 {one['killed']}: RTO {one['rto_ms']} ms, longest gap between answers {one['longest_gap_ms']} ms, {failed}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make interop", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"per client setting (default {MESSAGES})")
    parser.add_argument("--only", choices=sorted(SETTINGS), help="one client setting only")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--keep", action="store_true", help="keep the run's folder (ledgers, logs)")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="regent-interop-"))
    cluster = Cluster(work / "cluster")
    results: list[dict[str, Any]] = []
    try:
        class_path = build(work)
        say("starting a cluster: Kafka, two controllers, a name server, three brokers")
        cluster.up()
        for label, extra in SETTINGS.items():
            if options.only in (None, label):
                cluster.wait_whole()
                say(f"{options.messages} messages, client settings {label} {extra or ''}")
                results.append(run_once(cluster, class_path, work, label, extra, options.messages))
                if not options.json:
                    show(results[-1])
    except Problem as problem:
        say(f"interop: {problem}")
        return problem.exit_code
    except subprocess.CalledProcessError as error:
        say(f"interop: {' '.join(map(str, error.cmd))} failed with exit code {error.returncode}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        cluster.down()
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    lost = sum(result["lost"] for result in results)
    complete = all(result["acknowledged"] == result["sent"] == options.messages for result in results)
    if options.json:
        print(json.dumps({"results": results, "lost": lost, "complete": complete}, indent=1))
    else:
        print(f"\n{'nothing acknowledged is lost' if not lost else f'{lost} ACKNOWLEDGED MESSAGES ARE LOST'}")
    return 0 if not lost and complete else 1


if __name__ == "__main__":
    sys.exit(main())

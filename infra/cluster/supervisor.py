"""Start the processes of a local cluster in order, keep them running, stop them all.

One loop in the main thread owns everything: it reaps, restarts, asks for readiness, serves requests
and replaces cluster.json. Refuses to know what the processes do and how they are configured.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from infra.cluster import plan as cluster_plan
from infra.cluster import readiness, toml_text
from infra.cluster.child import Child
from infra.cluster.data_folder import DataFolder
from infra.cluster.hung import HungWatch
from infra.cluster.options import ClusterOptions
from infra.cluster.plan import ClusterPlan, ProcessSpec
from infra.problems import EXIT_DONE, Problem
from infra.processes import children
from infra.processes.ports import require_free
from infra.processes.pulses import Pulses
from infra.processes.spares import Spares
from infra.processes.watchdog_link import WatchdogLink

TURN_S = 0.02
ASK_AGAIN_S = 0.05
# one group after the other, each before what it writes to controllers first: they would elect for
# brokers that only stop; then the landing job has time for their last records
STOP_GROUPS = (("controller",), ("broker", "namesrv"), ("land",), ("kafka",))
STOP_GRACE_S = {"broker": 10.0, "land": 20.0, "namesrv": 5.0, "controller": 10.0, "kafka": 15.0}
# a broker that hands over stays for drain_ms at most, by default a minute, and a while to stop
HOLD_GRACE_S = 100.0
# kind, and how long the whole kind may take until it is ready; Spark on a loaded machine takes
# minutes
START_ORDER = (
    ("kafka", 180.0),
    ("controller", 120.0),
    ("namesrv", 60.0),
    ("broker", 120.0),
    ("land", 600.0),
)
LOG_LINES_SHOWN = 5
OUTPUT_BYTES_MAX = 1024 * 1024
# kinds whose place clients wait at: a spare process takes it over at once, also when they only
# stand still
SPARE_KINDS = WATCHED_KINDS = ("broker",)


class Supervisor:
    """Runs one plan in one data folder until it is asked to stop."""

    def __init__(
        self,
        folder: DataFolder,
        plan: ClusterPlan,
        options: ClusterOptions,
        say: Callable[[str], None],
        before_kind: Callable[[str], None] = lambda kind: None,
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._options = options
        self._say = say
        self._before_kind = before_kind
        self._children: dict[str, Child] = {}
        self._steps: list[dict[str, Any]] = []
        self._state = "starting"
        self._stop_reason: str | None = None
        self._watchdog = WatchdogLink()
        self._spares = Spares(self._watchdog)
        self._pulses = Pulses()
        self._hung = HungWatch(options.watchdog_ms, self._pulses, readiness.answers)

    # -- life --------------------------------------------------------------------------------------

    def run(self) -> int:
        """Start all, supervise until a stop is asked for, stop all. Problem when the cluster does
        not come up.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._watchdog.start()
        try:
            self._start_all()
            while self._stop_reason is None:
                self._turn()
        finally:
            self._stop_all()
        return EXIT_DONE

    def _on_signal(self, number: int, frame: object) -> None:
        self._stop_reason = signal.Signals(number).name

    # -- start -------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        # Spark needs longest and waits for the topics itself; the name server needs nobody
        for kind in ("land", "namesrv"):
            self._start_kind(kind, wait_s=None)
        for kind, limit_s in START_ORDER:
            self._start_kind(kind, limit_s)
            if self._stop_reason is not None:
                return
        self._state = "ready"
        self._write()
        for child in self._children.values():
            self._prepare_spare(child.spec)

    def _start_kind(self, kind: str, wait_s: float | None) -> None:
        specs = self._plan.of_kind(kind)
        if not specs:
            return
        self._before_kind(kind)
        for group in self._plan.start_groups(kind):
            new = [spec for spec in group if spec.name not in self._children]
            for spec in new:
                self._start(spec)
            if kind == "broker" and wait_s is not None:
                self._wait({spec.name for spec in new}, wait_s, readiness.has_place)
        if wait_s is None:
            return
        self._wait({spec.name for spec in specs}, wait_s)
        seconds = max(self._children[spec.name].ready_after_s for spec in specs)
        text = f"{kind}: {', '.join(self._describe(spec) for spec in specs)} ready"
        self._steps.append({"text": text, "seconds": round(seconds, 2)})
        self._say(f"{text} after {seconds:.1f} s")
        self._write()

    @staticmethod
    def _describe(spec: ProcessSpec) -> str:
        return f"{spec.name} ({spec.listens[0]})" if spec.listens else spec.name

    def _wait(
        self,
        names: set[str],
        limit_s: float,
        enough: Callable[[ProcessSpec], bool] = lambda spec: False,
    ) -> None:
        """Until all of `names` are ready, or `enough` says that a process has come far enough."""
        deadline = time.monotonic() + limit_s
        while self._stop_reason is None:
            waiting = [
                n
                for n in names
                if self._children[n].state != "ready" and not enough(self._children[n].spec)
            ]
            failed = [name for name in names if self._children[name].state == "failed"]
            if failed:
                raise Problem(
                    f"{failed[0]} does not come up: {self._last_words(failed[0])}",
                    self._see(failed[0]),
                )
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise Problem(
                    f"{waiting[0]} is not ready after {limit_s:.0f} s", self._see(waiting[0])
                )
            self._turn()

    def _see(self, name: str) -> str:
        return f"See {self._folder.log_of(name)}."

    def _last_words(self, name: str) -> str:
        lines = self._last_lines(name, 1)
        return (
            lines[-1].strip().removeprefix("regent: ")
            if lines
            else (f"exit code {self._children[name].last_exit}")
        )

    def _last_lines(self, name: str, count: int) -> list[str]:
        output = children.last_lines(
            self._folder.output_of(name), count, from_byte=self._children[name].output_from
        )
        return output or children.last_lines(self._folder.log_of(name), count)

    def _start(self, spec: ProcessSpec) -> None:
        # what starts behind a prefix may bind where this process cannot
        for address in () if spec.prefix else spec.listens:
            require_free(spec.name, address)
        path = self._folder.config_of(spec.name)
        path.write_text(toml_text.dumps(spec.config), encoding="utf-8")
        output = self._folder.output_of(spec.name)
        if output.exists() and output.stat().st_size > OUTPUT_BYTES_MAX:
            output.unlink()
        written = output.stat().st_size if output.exists() else 0
        process = self._spares.begin(spec.name) or children.spawn(
            self._command(spec), output, self._environ(spec)
        )
        self._watchdog.add(process.pid)
        child = self._children.setdefault(spec.name, Child(spec, process, time.monotonic()))
        child.process, child.started_at, child.state, child.output_from = (
            process,
            time.monotonic(),
            "starting",
            written,
        )
        child.beat_at, child.leaving = None, False
        self._write()

    def _command(self, spec: ProcessSpec) -> list[str]:
        command = [
            *spec.prefix,
            sys.executable,
            "-m",
            "infra",
            spec.kind,
            "--config",
            str(self._folder.config_of(spec.name)),
        ]
        if spec.kind != "kafka":
            command += ["--log-file", str(self._folder.log_of(spec.name))]
        return command

    def _environ(self, spec: ProcessSpec) -> dict[str, str] | None:
        watched = spec.kind in WATCHED_KINDS and self._options.watchdog_ms
        return self._pulses.environ(self._options.watchdog_ms) if watched else None

    def _prepare_spare(self, spec: ProcessSpec) -> None:
        if spec.kind in SPARE_KINDS:
            self._spares.prepare(
                spec.name,
                [*self._command(spec), "--wait-for-start"],
                self._folder.output_of(spec.name),
                self._environ(spec),
            )

    # -- one turn ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        now = time.monotonic()
        for child in list(self._children.values()):
            if child.state in ("starting", "ready") and child.process.poll() is not None:
                self._died(child, now)
            elif child.state == "restarting" and now >= child.next_start:
                self._restart(child, now)
            elif child.state == "starting" and now - child.asked_at >= ASK_AGAIN_S:
                child.asked_at = now
                self._ask(child)
        for child in self._hung.look(self._children.values()):
            silent_s, child.beat_at = self._hung.silent_s(child), None
            self._say(f"{child.spec.name} stands still for {silent_s:.1f} s: ending it")
            children.kill_group(child.process.pid)
        for path, request in self._folder.pending():
            answer = self._serve(request)
            if answer is not None:
                self._folder.answer(path, answer)
        time.sleep(TURN_S)

    def _ask(self, child: Child) -> None:
        # a Kafka node that comes back need not hold up this loop: clients find out by themselves
        known_good = child.spec.kind == "kafka" and self._state == "ready"
        if known_good or readiness.is_ready(child.spec, self._plan, child.process.pid):
            child.state, child.ready_after_s = "ready", time.monotonic() - child.started_at
            child.policy.was_ready()
            self._write()
            if self._state == "ready":
                self._prepare_spare(child.spec)

    def _died(self, child: Child, now: float) -> None:
        children.kill_group(child.process.pid)
        self._watchdog.drop(child.process.pid)
        child.last_exit = child.process.returncode
        delay = child.policy.died(now - child.started_at)
        name = child.spec.name
        how = child.how_it_ended()
        if delay is None:
            child.state = "failed"
            self._say(f"{name} {how} while starting; giving up")
        else:
            child.state, child.next_start = "restarting", now + delay
            self._say(f"{name} {how}; starting it again in {delay:.1f} s")
        if child.last_exit is not None and child.last_exit >= 0:
            for line in self._last_lines(name, LOG_LINES_SHOWN):
                self._say(f"  {name} | {line}")
        self._write()

    def _restart(self, child: Child, now: float) -> None:
        child.restarts += 1
        try:
            self._start(child.spec)
        except Problem as problem:
            child.restarts -= 1
            child.next_start = now + 1.0
            self._say(f"{child.spec.name}: {problem.line()}")

    # -- requests ----------------------------------------------------------------------------------

    def _serve(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None while there is none yet: it is asked for again in the next turn."""
        action, name = request.get("action"), str(request.get("name", ""))
        try:
            if action == "down":
                self._stop_reason = "regent down"
                return {"done": True}
            if action == "add_broker":
                return {"done": True, "name": self._add_broker(int(request["number"]))}
            child = self._children.get(name)
            if child is None:
                return {"problem": f"no process {name!r} here"}
            if action == "hold":
                return {"done": True} if self._held(child) else None
            if action == "kill":
                return self._killed(child)
            if action == "start":
                return self._resume(child)
            if action == "renew":
                return self._renew(child, request.get("pid"))
        except Problem as problem:
            return {"problem": problem.line()}
        return {"problem": f"unknown request {action!r}"}

    def _add_broker(self, number: int) -> str:
        spec = cluster_plan.broker_spec(self._folder, self._options, self._plan, number)
        if spec.name in self._children:
            raise Problem(f"{spec.name} is here already", "Name another number.")
        self._start(spec)
        return spec.name

    def _held(self, child: Child) -> bool:
        """Ask it to stop and leave it so; False while it has not ended. A master stays for clients
        with an old route, and the others are served meanwhile.
        """
        now = time.monotonic()
        if child.state != "holding":
            child.state, child.next_start = "holding", now + HOLD_GRACE_S
            # a second SIGTERM ends a broker that still serves its clients
            if not child.leaving:
                children.kill_group(child.process.pid, signal.SIGTERM)
            child.leaving = True
            self._write()
        if child.process.poll() is None and now < child.next_start:
            return False
        children.stop(child.process, 0.0)
        self._watchdog.drop(child.process.pid)
        child.state, child.last_exit = "held", child.process.returncode
        self._write()
        return True

    def _killed(self, child: Child) -> dict[str, Any]:
        """It dies as by a crash, and nobody takes its place until a start is asked for."""
        if child.state not in ("starting", "ready"):
            return {"problem": f"{child.spec.name} does not run"}
        child.state = "held"
        children.kill_group(child.process.pid)
        child.process.wait()
        self._watchdog.drop(child.process.pid)
        child.last_exit = child.process.returncode
        self._write()
        return {"done": True}

    def _renew(self, child: Child, pid: object) -> dict[str, Any]:
        """Process `pid` of it is asked to end, once, and another one takes its place."""
        runs = child.process.pid == pid and child.state in ("starting", "ready")
        if runs and not child.leaving:
            child.leaving = True
            child.process.terminate()
            self._write()
        return {"done": True}

    def _resume(self, child: Child) -> dict[str, Any]:
        if child.state in ("starting", "ready"):
            return {"problem": f"{child.spec.name} runs already"}
        self._start(child.spec)
        return {"done": True}

    # -- stop --------------------------------------------------------------------------------------

    def _stop_all(self) -> None:
        self._state = "stopping"
        self._write()
        self._spares.stop_all()
        for kinds in STOP_GROUPS:
            group = [c for c in self._children.values() if c.spec.kind in kinds]
            if not group:
                continue
            grace_s = max(STOP_GRACE_S[c.spec.kind] for c in group)
            for child in group:  # a paused process would not see the request to stop
                children.kill_group(child.process.pid, signal.SIGCONT)
            children.stop_all([c.process for c in group], grace_s)
            for child in group:
                child.state, child.last_exit = "stopped", child.process.returncode
                self._watchdog.drop(child.process.pid)
        self._state = "stopped"
        self._write()
        self._watchdog.close()
        self._pulses.close()

    # -- what others see ---------------------------------------------------------------------------

    def _write(self) -> None:
        self._folder.write_cluster(
            {
                "state": self._state,
                "supervisor": {"pid": os.getpid(), "stamp": children.start_stamp(os.getpid())},
                "steps": self._steps,
                "kafka": self._plan.kafka,
                "controllers": list(self._plan.controllers),
                "name_servers": list(self._plan.name_servers),
                "landing_dir": str(self._folder.landing),
                "processes": [child.public() for child in self._children.values()],
            }
        )

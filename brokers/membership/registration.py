"""How a broker gets its identity and its place with the controller: one state machine.

Responsible for: the order of 1012, temp file, 1013, identity file, 1003, and what each failure
leaves behind (RULES 10.2, 10.3, with design S9 and S12 in force). Inputs are answers,
outputs are effects as values.
Refuses to know: sockets, files, clocks, where command ids come from, which role the answer leads
to.

Invariants:
  - a temp identity is deleted only when the controller refused its id, or when the identity file is
    durable;
  - a retry of an unanswered 1013 or 1003 repeats the check code and the command id; a settled
    answer ends that id;
  - an identity, once written, is never given up: 2010 and 2008 repeat 1003, never 1012.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

CODE_OK = 0
CODE_BROKER_ID_INVALID = 2014


@dataclass(frozen=True, slots=True)
class Identity:
    """The permanent identity: one line `cluster#brokerName#id` on disk, then `#code` if the check
    code is known.

    The check code proves that the sender was granted the id. RocketMQ and earlier releases forget
    it once it is granted.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    register_check_code: str = ""


@dataclass(frozen=True, slots=True)
class TempIdentity:
    """An identity asked for and not yet granted, with the check code that makes asking again
    harmless.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    register_check_code: str

    def granted(self) -> Identity:
        return Identity(
            self.cluster_name, self.broker_name, self.broker_id, self.register_check_code
        )


class RegisterState(Enum):
    INITIAL = "INITIAL"
    TEMP_WRITTEN = "CREATE_TEMP_METADATA_FILE_DONE"
    IDENTITY_WRITTEN = "CREATE_METADATA_FILE_DONE"
    REGISTERED = "REGISTERED"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class AskNextBrokerId:
    """Send 1012 to the leading controller."""


@dataclass(frozen=True, slots=True)
class WriteTemp:
    temp: TempIdentity


@dataclass(frozen=True, slots=True)
class DeleteTemp:
    """Remove the temp file; a file that is not there is fine."""


@dataclass(frozen=True, slots=True)
class ApplyBrokerId:
    """Send 1013."""

    broker_id: int
    register_check_code: str
    command_id: str


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    identity: Identity
    retried: bool


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """Send 1003."""

    broker_id: int
    command_id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Come back with `retry()` after a pause; `reason` is for the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class Registered:
    broker_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Registration cannot go on without the operator."""

    reason: str


Effect = (
    AskNextBrokerId
    | WriteTemp
    | DeleteTemp
    | ApplyBrokerId
    | WriteIdentity
    | RegisterBroker
    | Wait
    | Registered
    | Refused
)
Effects = tuple[Effect, ...]


class Registration:
    """The registration of one broker process, from no file at all to REGISTERED."""

    def __init__(
        self, cluster_name: str, broker_name: str, address: str, command_ids: Iterator[str]
    ) -> None:
        self.cluster_name = cluster_name
        self.broker_name = broker_name
        self.address = address
        self.state = RegisterState.INITIAL
        self.identity: Identity | None = None
        self.temp: TempIdentity | None = None
        self._command_ids = command_ids
        self._command_id: str | None = None
        self._identity_attempts = 0

    def start(self, identity: Identity | None, temp: TempIdentity | None) -> Effects:
        """Begin from what the files say; the identity file wins when both exist."""
        found = identity or temp
        if found is not None and (found.cluster_name, found.broker_name) != (
            self.cluster_name,
            self.broker_name,
        ):
            self.state = RegisterState.REFUSED
            return (
                Refused(
                    f"the identity file belongs to {found.cluster_name}/{found.broker_name}, "
                    f"the configuration says {self.cluster_name}/{self.broker_name}"
                ),
            )
        if identity is not None:
            self.identity, self.state = identity, RegisterState.IDENTITY_WRITTEN
            cleanup: Effects = (DeleteTemp(),) if temp is not None else ()
            return (*cleanup, self._register())
        if temp is not None:
            self.temp, self.state = temp, RegisterState.TEMP_WRITTEN
            return (self._apply(),)
        return (AskNextBrokerId(),)

    def next_id_answered(
        self, code: int | None, next_broker_id: int | None, wall_ms: int
    ) -> Effects:
        """The answer to 1012; `code` None means no answer came."""
        if code != CODE_OK or next_broker_id is None:
            said = (
                "no controller that leads answered 1012"
                if code is None
                else f"1012 answered {code}"
            )
            return (Wait(said),)
        # RocketMQ reads no further than the address. The code must not be guessable: it proves who
        # speaks under the id.
        check_code = f"{self.address};{wall_ms};{self._current_command_id()}"
        self.temp = TempIdentity(self.cluster_name, self.broker_name, next_broker_id, check_code)
        return (WriteTemp(self.temp),)

    def temp_written(self, ok: bool) -> Effects:
        if not ok:
            self.temp = None
            return (DeleteTemp(), Wait("the temp identity file cannot be written"))
        self.state = RegisterState.TEMP_WRITTEN
        return (self._apply(),)

    def apply_answered(self, code: int | None) -> Effects:
        """The answer to 1013; None is *unknown*: the id may be ours already, so nothing is thrown
        away.
        """
        if code is None:
            return (Wait("1013 unanswered; it will be repeated with the same check code"),)
        self._command_id = None
        if code == CODE_OK:
            return (self._write_identity(),)
        if code == CODE_BROKER_ID_INVALID:
            self.temp, self.state = None, RegisterState.INITIAL
            return (DeleteTemp(), Wait("the broker id was taken by another replica"))
        return (Wait(f"1013 answered {code}"),)

    def identity_written(self, ok: bool) -> Effects:
        if not ok:
            return (Wait("the identity file cannot be written; 1013 will be repeated"),)
        assert self.temp is not None
        self.identity, self.temp, self.state = (
            self.temp.granted(),
            None,
            RegisterState.IDENTITY_WRITTEN,
        )
        return (DeleteTemp(), self._register())

    def register_answered(self, code: int | None) -> Effects:
        """The answer to 1003; 2010 (the controller lost the set) is repeated for ever, ids are
        never asked anew.
        """
        if code is None:
            return (Wait("1003 unanswered"),)
        self._command_id = None
        if code != CODE_OK:
            return (Wait(f"1003 answered {code}"),)
        assert self.identity is not None
        self.state = RegisterState.REGISTERED
        return (Registered(self.identity.broker_id),)

    def reregister(self) -> Effects:
        """The controller answered 2008 to a running broker: one more 1003 (RULES 10.3,
        last row).
        """
        if self.state is not RegisterState.REGISTERED:
            return ()
        self.state = RegisterState.IDENTITY_WRITTEN
        return (self._register(),)

    def retry(self) -> Effects:
        """What to do after a `Wait`."""
        match self.state:
            case RegisterState.INITIAL:
                return (AskNextBrokerId(),)
            case RegisterState.TEMP_WRITTEN:
                return (self._apply(),)
            case RegisterState.IDENTITY_WRITTEN:
                return (self._register(),)
            case _:
                return ()

    @property
    def check_code(self) -> str:
        """The code that the granted id was got with; empty when the identity file does not tell
        it.
        """
        return "" if self.identity is None else self.identity.register_check_code

    def _apply(self) -> ApplyBrokerId:
        assert self.temp is not None
        return ApplyBrokerId(
            self.temp.broker_id, self.temp.register_check_code, self._current_command_id()
        )

    def _register(self) -> RegisterBroker:
        assert self.identity is not None
        return RegisterBroker(self.identity.broker_id, self._current_command_id())

    def _write_identity(self) -> WriteIdentity:
        assert self.temp is not None
        self._identity_attempts += 1
        return WriteIdentity(self.temp.granted(), retried=self._identity_attempts > 1)

    def _current_command_id(self) -> str:
        if self._command_id is None:
            self._command_id = next(self._command_ids)
        return self._command_id

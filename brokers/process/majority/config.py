"""What people configure of one member of a majority group.

Responsible for: names, defaults, limits, DLedger's form of a list of peers. Refuses to know: where
a value came from, what a member does with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from brokers.majority.quorum.config import NO_MESSAGE, Durability, QuorumConfig
from brokers.majority.quorum.effects import NewEntry
from brokers.majority.store.folder import INDEX_FILE_BYTES_DEFAULT, MajorityStoreConfig
from brokers.majority.store.layout import INDEX_RECORD_BYTES
from brokers.majority.store.marks import is_member_id
from brokers.majority.wire.json_bodies import PEERS_MAX
from brokers.remoting.addresses import written_address
from brokers.store.log.commit_log import FILE_BYTES_DEFAULT
from events.config_file import kafka_texts

FILE_BYTES_MIN = 4_096


def parse_peers(text: str) -> dict[str, str]:
    """Address by member id of `n0-host:port;n1-host:port`: the id ends at the first `-`, as DLedger
    reads it. ValueError.
    """
    found: dict[str, str] = {}
    for one in filter(None, (part.strip() for part in text.split(";"))):
        member, dash, address = one.partition("-")
        if not dash or not is_member_id(member):
            raise ValueError(f"{one!r} is not id-host:port")
        if member in found:
            raise ValueError(f"{member} is named twice")
        found[member] = written_address(address)
    if not 0 < len(found) <= PEERS_MAX:
        raise ValueError(f"a group has 1 to {PEERS_MAX} members, {len(found)} are named")
    return found


def broker_id_of(member_id: str) -> int:
    """Of a member that does not lead, as RocketMQ gives it: the number behind the first character,
    and one. ValueError when there is none.
    """
    number = member_id[1:]
    if not (number.isascii() and number.isdigit() and len(number) < 9):
        raise ValueError(f"{member_id!r} is no letter and a number, from which a broker's id comes")
    return int(number) + 1


class MemberConfig(BaseModel):
    """Times in ms, sizes in bytes. `peers`: all members, oneself too; they never change. File sizes
    are the same on all members (PROTOCOL 9.1).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    group: str = Field("default", min_length=1, max_length=255)
    self_id: str
    peers: str
    # Empty: the own address in `peers`.
    listen: str = ""
    store_dir: Path
    preferred_leader_ids: str = ""
    data_file_bytes: int = Field(FILE_BYTES_DEFAULT, ge=FILE_BYTES_MIN)
    index_file_bytes: int = Field(INDEX_FILE_BYTES_DEFAULT, ge=INDEX_RECORD_BYTES)
    flush: Literal["before_acknowledged", "later"] = "before_acknowledged"
    # RocketMQ's brokers read a message in every entry; empty ones are for groups without them.
    first_entry: Literal["message", "empty"] = "message"
    heartbeat_ms: int = Field(2_000, ge=50)
    heartbeats_missed_max: int = Field(3, ge=1)
    vote_pause_min_ms: int = Field(300, ge=1)
    vote_pause_max_ms: int = Field(1_000, ge=1)
    append_wait_ms: int = Field(2_500, ge=1)
    checkpoint_ms: int = Field(3_000, ge=100)
    # Events of this group carry it; and how Kafka is reached, None: nobody is told anything.
    cluster_name: str = Field("regent", min_length=1, max_length=255)
    kafka: dict[str, str] | None = None

    @field_validator("peers")
    @classmethod
    def _peers_read(cls, text: str) -> str:
        parse_peers(text)
        return text

    @field_validator("kafka", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        return kafka_texts(value)

    @field_validator("listen")
    @classmethod
    def _listen_reads(cls, text: str) -> str:
        return text and written_address(text)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.self_id not in self.addresses:
            raise ValueError(f"{self.self_id} is not among the peers {self.peers}")
        strangers = [one for one in self.preferred if one not in self.addresses]
        if strangers:
            raise ValueError(f"{strangers[0]} is preferred and not among the peers {self.peers}")
        if self.vote_pause_min_ms > self.vote_pause_max_ms:
            raise ValueError("the shortest pause between votes is longer than the longest")
        if self.index_file_bytes % INDEX_RECORD_BYTES:
            raise ValueError(f"index_file_bytes is a multiple of {INDEX_RECORD_BYTES}")
        return self

    @property
    def addresses(self) -> dict[str, str]:
        """By member id, of all."""
        return parse_peers(self.peers)

    @property
    def broker_id(self) -> int:
        """Of its events: its place among all, from 1; RocketMQ's of members named n0, n1, ..."""
        ids = sorted(self.addresses, key=lambda one: (len(one), one))
        return 1 + ids.index(self.self_id)

    @property
    def preferred(self) -> tuple[str, ...]:
        """Who should lead when it can."""
        return tuple(filter(None, map(str.strip, self.preferred_leader_ids.split(";"))))

    @property
    def bound(self) -> str:
        """The address that is listened on."""
        return self.listen or self.addresses[self.self_id]

    @property
    def store(self) -> MajorityStoreConfig:
        return MajorityStoreConfig(self.data_file_bytes, self.index_file_bytes)

    def quorum(self, first_message: NewEntry) -> QuorumConfig:
        """`first_message`: what begins a term where an empty entry is not wanted."""
        return QuorumConfig(
            group=self.group,
            self_id=self.self_id,
            members=tuple(self.addresses),
            durability=Durability.WRITTEN if self.flush == "later" else Durability.FLUSHED,
            first_entry=NO_MESSAGE if self.first_entry == "empty" else first_message,
            heartbeat_ms=self.heartbeat_ms,
            heartbeats_missed_max=self.heartbeats_missed_max,
            vote_pause_ms=(self.vote_pause_min_ms, self.vote_pause_max_ms),
            append_wait_ms=self.append_wait_ms,
            preferred=self.preferred,
        )


IN_SYNC_SETS_ONLY = (
    "controllers",
    "broker_role",
    "ha_master_address",
    "async_learner",
    "sync_from_last_file",
    "enable_slave_acting_master",
    "enable_remote_escape",
    "skip_pre_online",
    "lock_in_strict_mode",
)
"""Settings of a broker that mean something in an in-sync set alone."""


def majority_refusal(broker: BaseModel) -> str | None:
    """Why a broker's settings make no member of a majority group, with the way out. They name one,
    or a part of one.
    """
    given = {name: getattr(broker, name) for name in ("replication", "broker_id")}
    if given["replication"] != "majority":
        return (
            'majority_peers and majority_self_id are for replication = "majority": set it, or '
            "remove them"
        )
    others = [name for name in IN_SYNC_SETS_ONLY if getattr(broker, name)]
    if given["broker_id"] is not None:
        others.append("broker_id")
    if others:
        return (
            f"{others[0]} is for in-sync sets, and a set replicates in one way: remove it, or "
            'replication = "majority"'
        )
    try:
        broker_id_of(member_of(broker).self_id)
    except ValueError as error:
        return str(error)
    return None


def member_of(broker: BaseModel) -> MemberConfig:
    """What the member behind a broker is configured with. ValueError, in one line."""
    said = broker.model_dump()
    index_bytes = min(INDEX_FILE_BYTES_DEFAULT, said["commit_log_file_bytes"])
    given = {
        "group": said["majority_group"] or said["broker_name"],
        "preferred_leader_ids": said["majority_preferred_leaders"],
        "data_file_bytes": said["commit_log_file_bytes"],
        "index_file_bytes": index_bytes - index_bytes % INDEX_RECORD_BYTES,
        "append_wait_ms": said["ack_timeout_ms"],
        "store_dir": said["store_dir"],
    }
    same = ("self_id", "peers", "listen", "flush", "heartbeat_ms", "heartbeats_missed_max")
    for name in (*same, "vote_pause_min_ms", "vote_pause_max_ms"):
        given[name] = said[f"majority_{name}"]
    try:
        return MemberConfig.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where, text = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ValueError(f"majority_{where}: {text}" if where else text) from None

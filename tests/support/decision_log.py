"""The two topics of decisions read straight from Kafka, and the proof that they belong together."""

from __future__ import annotations

from events.codec import decode
from events.outcomes import Outcome
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.processes import status
from processors.fold.folder import Folder
from processors.log.reader import LogReader
from tests.support.local_cluster import LocalCluster, wait_until

ASK_TIMEOUT_S = 30.0


def wait_published(cluster: LocalCluster) -> None:
    """Until the active controller has published everything that it has applied."""

    def all_published() -> bool:
        answers = status.ask_all([one["status_address"] for one in cluster.processes("controller")])
        active = [one for one in answers.values() if one and one.get("role") == "active"]
        # one that was deposed may not know it yet
        leader = max(active, key=lambda one: one["term"], default=None)
        return leader is not None and bool(leader["published_offset"] == leader["applied_offset"])

    wait_until(all_published, "all outcomes are published")


def proven_outcomes(bootstrap: str) -> list[Outcome]:
    """Every published outcome once, in order; the list's index is the command's offset.

    Fails when an offset is missing, published out of order or with two digests, or when a fold of
    the commands alone gives another digest than what was published.
    """
    reader = LogReader({"bootstrap.servers": bootstrap})
    folder = Folder()
    digests: list[bytes] = []
    published: list[Outcome] = []

    def keep(offset: int, data: bytes) -> None:
        outcome = decode(data)
        assert isinstance(outcome, Outcome), (
            f"record {offset} of {OUTCOMES_TOPIC} is a {type(outcome).__name__}"
        )
        at = outcome.command_offset
        assert at <= len(published), f"outcome {len(published)} is missing before {at}"
        if at == len(published):
            published.append(outcome)
        assert published[at].digest == outcome.digest, (
            f"outcome {at} was published with two digests"
        )

    try:
        _, outcomes_end = reader.bounds(OUTCOMES_TOPIC, ASK_TIMEOUT_S)
        reader.read(OUTCOMES_TOPIC, 0, outcomes_end, keep)
        first, end = reader.bounds(COMMANDS_TOPIC, ASK_TIMEOUT_S)
        assert first == 0 and end >= len(published)
        reader.read(
            COMMANDS_TOPIC,
            0,
            end,
            lambda offset, data: digests.append(folder.apply(offset, data).outcome.digest),
        )
    finally:
        reader.close()
    different = [
        one.command_offset for one in published if one.digest != digests[one.command_offset]
    ]
    assert not different, f"the fold of the commands gives other digests at {different}"
    return published

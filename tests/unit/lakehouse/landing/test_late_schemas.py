from pathlib import Path

import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import MalformedRecord, encode
from events.topics import BROKER_EVENTS_TOPIC
from lakehouse.landing.late_schemas import LateSchemas
from tests.support import later_release
from tests.support.later_release import event_bytes

LATE = event_bytes(
    later_release.link_up(), peer_broker_id=2, direction="out", rtt_us=7, hops=[{"address": "h:1"}]
)


def test_a_file_that_comes_later_explains_what_nobody_knew(tmp_path: Path) -> None:
    late = LateSchemas([tmp_path])
    assert late.of(LATE) is None
    version = late.version
    assert late.of(LATE) is None and late.version == version, (
        "no file has changed, so none is read again"
    )
    later_release.put(tmp_path, "broker_events", later_release.link_up())
    found = late.of(LATE)
    assert found is not None and late.version > version
    assert (found.kind, found.topic) == ("HaLinkUp", BROKER_EVENTS_TOPIC)
    record = found.decode(LATE)
    assert (type(record).__name__, record.peer_broker_id, record.rtt_us) == ("HaLinkUp", 2, 7)
    assert (record.header.broker_name, record.hops[0].address) == ("broker-a", "h:1")
    (tmp_path / "broker_events" / "HaLinkUp.avsc").unlink()
    late.look_again()
    assert late.of(LATE) is found, "what was explained stays so"


def test_a_file_that_is_no_schema_is_left_until_it_is_one(tmp_path: Path) -> None:
    late = LateSchemas([tmp_path])
    path = tmp_path / "broker_events" / "HaLinkUp.avsc"
    path.parent.mkdir()
    for text in (
        "{",
        '{"name": "HaLinkUp"}',
        (
            '{"name": "HaLinkUp", "type": "record", "fields": [{"name": "a", "type": '
            '"regent.Nobody"}]}'
        ),
    ):
        path.write_text(text)
        assert late.of(LATE) is None
    later_release.put(tmp_path, "broker_events", later_release.link_up())
    assert late.of(LATE) is not None


def test_records_of_this_release_are_explained_by_its_own_files() -> None:
    data = encode(HaLinkUp(BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0), 2, "out"))
    found = LateSchemas().of(data)
    assert found is not None and found.decode(data).direction == "out"


@pytest.mark.parametrize("data", [LATE[:-1], LATE + b"x", LATE[:12]], ids=["short", "long", "cut"])
def test_bytes_that_are_not_exactly_one_record_are_refused(tmp_path: Path, data: bytes) -> None:
    later_release.put(tmp_path, "broker_events", later_release.link_up())
    found = LateSchemas([tmp_path]).of(data)
    assert found is not None
    with pytest.raises(MalformedRecord):
        found.decode(data)


def test_bytes_without_a_fingerprint_are_no_question_of_schemas() -> None:
    with pytest.raises(MalformedRecord):
        LateSchemas().of(b"garbage")

from pathlib import Path

import pytest

from lakehouse.landing.source import (
    finished_offsets,
    forget_checkpoint,
    java_settings,
    must_begin_anew,
    planned_offsets,
    spark_options,
    starting_offsets,
)


def write(checkpoint: Path, batch: int, text: str, *, finished: bool = True) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text(text)
    if finished:
        (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_the_last_finished_batch_counts(tmp_path: Path) -> None:
    write(tmp_path, 9, 'v1\n{}\n{"a":{"0":5}}')
    write(tmp_path, 10, 'v1\n{}\n{"a":{"0":7,"1":2},"b":{"0":1}}')
    write(tmp_path, 11, 'v1\n{}\n{"a":{"0":9}}', finished=False)
    assert finished_offsets(f"file:{tmp_path}") == {"a-0": 7, "a-1": 2, "b-0": 1}


def test_a_batch_that_has_begun_ends_where_it_was_planned_to(tmp_path: Path) -> None:
    write(tmp_path, 10, 'v1\n{}\n{"a":{"0":7,"1":2},"b-c":{"12":1}}', finished=False)
    planned = {("a", 0): 7, ("a", 1): 2, ("b-c", 12): 1}
    assert planned_offsets(f"file:{tmp_path}", 10) == planned
    assert planned_offsets(f"file:{tmp_path}", 11) == {}
    write(tmp_path, 12, "v9\n-\n-")
    assert planned_offsets(f"file:{tmp_path}", 12) == {}
    assert planned_offsets("s3a://bucket/checkpoints/details", 10) == {}


def test_what_is_not_understood_counts_as_nothing(tmp_path: Path) -> None:
    assert finished_offsets(str(tmp_path / "none")) == {}
    write(tmp_path, 0, "v9\n-\n-")
    assert finished_offsets(f"file:{tmp_path}") == {}
    assert finished_offsets("s3a://bucket/checkpoints/first") == {}


@pytest.mark.parametrize(
    ("told", "begins", "anew"),
    [
        ({"a-0": 5}, {("a", 0): 5}, False),
        ({"a-0": 5}, {("a", 0): 6}, True),
        ({"a-0": 5}, {("a", 0): 5, ("a", 1): 0}, False),  # a new partition, from its beginning
        ({"a-0": 5}, {("a", 0): 5, ("a", 1): 1}, True),
        ({}, {("a", 0): 0}, True),  # what is planned may be gone by the time it is read
    ],
)
def test_a_query_begins_anew_where_the_log_has_overtaken_its_checkpoint(
    told: dict[str, int], begins: dict[tuple[str, int], int], anew: bool
) -> None:
    assert must_begin_anew(told, begins) is anew
    assert starting_offsets({("a", 1): 3, ("b", 0): 0, ("a", 0): 7}) == (
        '{"a": {"0": 7, "1": 3}, "b": {"0": 0}}'
    )


def test_a_checkpoint_is_forgotten_and_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path, 9, 'v1\n{}\n{"a":{"0":5}}')
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "metadata").write_text("{}")
    (tmp_path / "mine").write_text("stays")
    for _ in range(2):
        forget_checkpoint(str(tmp_path))
        assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_timeouts_of_librdkafka_are_left_out() -> None:
    settings = {"bootstrap.servers": "h:1", "socket.timeout.ms": "2000", "linger.ms": "0"}
    assert java_settings(settings) == {"bootstrap.servers": "h:1"}
    assert spark_options(settings) == {"kafka.bootstrap.servers": "h:1"}


def test_user_and_password_become_a_login_module() -> None:
    java = java_settings(
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": 'p"w',
        }
    )
    assert java["sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="u" password="p\\"w";'
    )
    assert "sasl.mechanisms" not in java


def test_a_certificate_file_becomes_a_trust_store() -> None:
    java = java_settings({"bootstrap.servers": "h:1", "ssl.ca.location": "/ca.pem"})
    assert java["ssl.truststore.type"] == "PEM"
    assert java["ssl.truststore.location"] == "/ca.pem"

"""Ids and the release of a controller process."""

from processors.process import own_identity


def test_command_ids_are_16_bytes_and_differ() -> None:
    ids = own_identity.random_ids()
    first, second = next(ids), next(ids)
    assert len(first) == 16 and first != second


def test_the_release_is_never_empty() -> None:
    assert own_identity.release()

"""What a controller remembers between its starts."""

from pathlib import Path

from processors.log.start_notes import GROUPS_KEPT, StartNotes


def test_each_start_has_a_group_nobody_is_in_and_groups_are_bounded(tmp_path: Path) -> None:
    groups = [StartNotes(tmp_path).next_group("g") for _ in range(GROUPS_KEPT + 1)]
    assert groups[0] == "g-0" == groups[-1]
    assert len(set(groups)) == GROUPS_KEPT


def test_the_log_id_survives_and_a_torn_file_is_as_good_as_none(tmp_path: Path) -> None:
    StartNotes(tmp_path).keep_log_id(b"\x01" * 16)
    StartNotes(tmp_path).next_group("g")
    assert StartNotes(tmp_path).log_id() == b"\x01" * 16
    for torn in ("{", "[]", '{"log_id": "zz"}', '{"log_id": 7, "starts": "x"}'):
        (tmp_path / "start-notes.json").write_text(torn)
        assert StartNotes(tmp_path).log_id() is None
        assert StartNotes(tmp_path).next_group("g") == "g-0"


def test_how_far_a_stopped_controller_was_never_falls(tmp_path: Path) -> None:
    assert StartNotes(tmp_path).applied_offset() == -1
    for offset in (7, 3):
        StartNotes(tmp_path).keep_applied_offset(offset)
    assert StartNotes(tmp_path).applied_offset() == 7


def test_where_others_give_out_snapshots_is_kept_until_something_else_is_heard(
    tmp_path: Path,
) -> None:
    assert StartNotes(tmp_path).peers_http() == {}
    StartNotes(tmp_path).keep_peers_http({"c2": "h:1"})
    StartNotes(tmp_path).keep_peers_http({})
    assert StartNotes(tmp_path).peers_http() == {"c2": "h:1"}

"""What the topics of the log must be."""

from events.topics import BROKER_EVENTS, COMMANDS, COMMANDS_TOPIC, OUTCOMES, TOPICS


def test_names_carry_the_product():
    assert [spec.name for spec in TOPICS] == [
        "regent.commands",
        "regent.outcomes",
        "regent.broker-events",
    ]
    assert COMMANDS.name == COMMANDS_TOPIC


def test_the_command_log_is_one_partition_kept_for_ever_and_never_compacted():
    """Design D1 and D13: its offsets are the order of everything."""
    for spec in (COMMANDS, OUTCOMES):
        assert spec.partitions == 1
        assert spec.partitions_exact
        assert spec.required["retention.ms"] == "-1"
        assert spec.required["retention.bytes"] == "-1"
        assert spec.required["cleanup.policy"] == "delete"
        assert spec.required["unclean.leader.election.enable"] == "false"


def test_a_topic_created_here_passes_its_own_check():
    for spec in TOPICS:
        assert spec.required.items() <= spec.created.items()


def test_a_decision_is_on_a_disk_before_it_is_acknowledged():
    assert COMMANDS.required["flush.messages"] == "1"
    assert "flush.messages" not in OUTCOMES.required  # What is lost of them is folded again.


def test_broker_events_may_have_any_number_of_partitions():
    assert not BROKER_EVENTS.partitions_exact

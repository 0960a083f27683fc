"""Mistakes below `[kafka]` are named before anything starts."""

import pytest

from events.config_file import ConfigError
from infra.kafka.client_settings import check_kafka


@pytest.mark.parametrize(
    ("kafka", "said"),
    [
        ({"bootstrap.server": "h:1"}, "bootstrap.server.*did you mean bootstrap.servers?"),
        ({"securty.protocol": "SSL"}, "securty.protocol.*did you mean security.protocol?"),
        ({"security.protocol": "SSLL"}, 'Invalid value "SSLL"'),
        ({"listen": "h:1"}, r"kafka.listen: .* move the line above \[kafka\]"),
        ({"bootstrap": {"servers": "h:1"}}, 'are quoted here: "bootstrap.servers"'),
        ({"bootstrap": {}}, "are quoted here"),
    ],
)
def test_what_no_client_knows_is_named_with_what_was_meant(
    kafka: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_kafka(kafka, ("listen", "kafka"))


def test_what_clients_know_passes() -> None:
    check_kafka({"bootstrap.servers": "h:1,i:2", "socket.timeout.ms": "1000"}, ("listen",))

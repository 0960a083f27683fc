"""What people set for Kafka's clients, looked at before a process starts.

Responsible for: one clear line for a setting that no client knows, and for one of ours that slipped
below `[kafka]`.
Refuses to know: what the settings do. Kafka's own library says which there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaException, Producer

from events.config_file import ConfigError, did_you_mean

USUAL = (
    "bootstrap.servers",
    "client.id",
    "client.rack",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
)
# The library looks at names and values, connects to nothing, and says nothing by itself.
NOTHING_TO_ASK = {"bootstrap.servers": "", "log_level": 0}
NO_SUCH = "No such configuration property: "


def check_kafka(kafka: Mapping[str, object], ours: Iterable[str]) -> None:
    """`ours`: the settings of the process, which stand above `[kafka]`. ConfigError."""
    known = set(ours)
    for name, value in kafka.items():
        if name in known:
            raise ConfigError(
                f"kafka.{name}: this is no setting of Kafka's clients but of the process: move the "
                "line above [kafka]"
            )
        if isinstance(value, Mapping):
            whole = f"{name}.{next(iter(value), '')}"
            raise ConfigError(f'kafka.{name}: names with dots are quoted here: "{whole}" = ...')
    try:
        Producer({**kafka, **NOTHING_TO_ASK})
    except KafkaException as error:
        said = error.args[0].str()
        name = said.removeprefix(NO_SUCH).strip('"') if said.startswith(NO_SUCH) else ""
        raise ConfigError(f"kafka: {said}{did_you_mean(name, USUAL) if name else ''}") from None

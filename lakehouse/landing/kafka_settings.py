"""One set of Kafka client settings, spelled for Java.

Configuration holds settings as librdkafka spells them, because the producers use that library.
Spark's Kafka source is a Java client and knows some of them under other names.
Responsible for that translation only (P).
"""

from __future__ import annotations

from collections.abc import Mapping

SAME_NAME_PREFIXES = (
    "bootstrap.servers",
    "client.id",
    "client.dns.lookup",
    "security.protocol",
    "sasl.kerberos.service.name",
    "sasl.jaas.config",
    "sasl.mechanism",
    "ssl.truststore.",
    "ssl.keystore.",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that decide where and as whom to connect, as a Java client names them.

    Timeouts and queue sizes of librdkafka are left out: they have no counterpart.
    """
    java = {
        name: value
        for name, value in settings.items()
        if name.startswith(SAME_NAME_PREFIXES) and name != "sasl.mechanisms"
    }
    if "sasl.mechanisms" in settings:
        java.setdefault("sasl.mechanism", settings["sasl.mechanisms"])
    if "sasl.username" in settings:
        java.setdefault("sasl.jaas.config", _jaas(settings, java.get("sasl.mechanism", "PLAIN")))
    if "ssl.ca.location" in settings:
        java.setdefault("ssl.truststore.type", "PEM")
        java.setdefault("ssl.truststore.location", settings["ssl.ca.location"])
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    return java


def spark_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The same, as options of Spark's Kafka source."""
    return {f"kafka.{name}": value for name, value in java_settings(settings).items()}


def _jaas(settings: Mapping[str, str], mechanism: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    name = _quoted(settings["sasl.username"])
    password = _quoted(settings.get("sasl.password", ""))
    return (
        f"org.apache.kafka.common.security.{module} required username={name} password={password};"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

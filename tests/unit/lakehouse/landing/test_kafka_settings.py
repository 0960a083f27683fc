from lakehouse.landing.kafka_settings import java_settings, spark_options


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

import socket
from pathlib import Path

import pytest

from infra.kafka import process
from infra.kafka.config import KafkaConfig
from infra.problems import Problem


def test_a_port_in_use_is_said_before_java_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = KafkaConfig(listen=f"127.0.0.1:{server.getsockname()[1]}", data_dir=tmp_path)
        with pytest.raises(Problem, match="port in use: kafka node 1"):
            process.run(config)


def test_a_folder_without_the_jars_is_said_before_java_starts(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is missing"):
        process.run(KafkaConfig(data_dir=tmp_path, jars_dir=tmp_path))

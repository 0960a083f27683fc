from pathlib import Path

import pytest

from infra.kafka import config as kafka_config
from infra.problems import EXIT_USAGE, Problem


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kafka.toml"
    path.write_text('listen = "127.0.0.1:1"\nheap_mb = 128\n[voters]\n1 = "127.0.0.1:2"\n')
    config = kafka_config.load(path, {"heap_mb": 300, "listen": None})
    assert (config.listen, config.heap_mb, config.voters) == (
        "127.0.0.1:1",
        300,
        {"1": "127.0.0.1:2"},
    )


@pytest.mark.parametrize(
    "text", ["=", "listen = 5", 'unknown = "x"', 'listen = "nowhere"', "node_id = 0"]
)
def test_an_unreadable_configuration_is_one_line_with_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kafka.toml"
    path.write_text(text)
    with pytest.raises(Problem, match=str(path)) as caught:
        kafka_config.load(path)
    assert caught.value.exit_code == EXIT_USAGE


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot be read"):
        kafka_config.load(tmp_path / "none")

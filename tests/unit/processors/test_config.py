"""A controller's configuration: TOML, flags, one clear line for what is wrong."""

from pathlib import Path

import pytest

from processors.config import ConfigError, load

TEXT = """
controller_id = "c1"
listen = "0.0.0.0:9878"
advertise = "10.0.0.1:9878"
data_dir = "data"
[peers]
c2 = "10.0.0.2:9878"
[kafka]
"bootstrap.servers" = "k:9092"
"socket.keepalive.enable" = true
"socket.timeout.ms" = 3000
[settings]
enableElectUncleanMaster = "true"
"""


def written(folder: Path, text: str = TEXT) -> Path:
    path = folder / "controller.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_bind_and_advertised_addresses_are_apart(tmp_path: Path) -> None:
    config = load(written(tmp_path))
    assert (config.listen, config.advertised) == ("0.0.0.0:9878", "10.0.0.1:9878")
    assert load(written(tmp_path), {"advertise": ""}).advertised == "0.0.0.0:9878"


def test_kafka_settings_are_passed_on_as_texts(tmp_path: Path) -> None:
    kafka = load(written(tmp_path)).kafka
    assert kafka == {"bootstrap.servers": "k:9092", "socket.keepalive.enable": "true", "socket.timeout.ms": "3000"}


def test_flags_win_over_the_file_and_none_says_nothing(tmp_path: Path) -> None:
    config = load(written(tmp_path), {"controller_id": "c9", "listen": None})
    assert (config.controller_id, config.listen) == ("c9", "0.0.0.0:9878")


@pytest.mark.parametrize(("change", "text"), [
    (("listen = \"0.0.0.0:9878\"", "listen = \"nowhere\""), "listen"),
    (("controller_id = \"c1\"", ""), "controller_id"),
    (("\"bootstrap.servers\" = \"k:9092\"", ""), "bootstrap.servers"),
    (("enableElectUncleanMaster = \"true\"", "enableElectUncleanMaster = \"maybe\""), "enableElectUncleanMaster"),
    (("data_dir = \"data\"", "data_dir = \"data\"\nunknown = 1"), "unknown"),
    (("c2 = \"10.0.0.2:9878\"", "c2 = \"x\""), "peers"),
    (("controller_id = \"c1\"", "controller_id ="), "not TOML"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, change: tuple[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load(written(tmp_path, TEXT.replace(*change)))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "nosuch.toml")

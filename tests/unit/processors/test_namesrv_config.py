"""The name server's settings: defaults, flags over the file, one clear line for what is wrong."""

import pytest

from processors.namesrv_config import ConfigError, NameServerConfig, load


def test_without_a_file_the_defaults_hold():
    assert load(None) == NameServerConfig(listen="127.0.0.1:9876", scan_interval_ms=5_000)


def test_flags_win_over_the_file_and_absent_flags_say_nothing(tmp_path):
    path = tmp_path / "namesrv.toml"
    path.write_text('listen = "0.0.0.0:1"\nscan_interval_ms = 100\n')
    config = load(path, {"listen": "127.0.0.1:2", "scan_interval_ms": None})
    assert (config.listen, config.scan_interval_ms) == ("127.0.0.1:2", 100)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("listen = ", "not TOML"),
        ("\udcff", "not TOML"),
        ('listen = "here"', "listen"),
        ("scan_interval_ms = 1", "scan_interval_ms"),
        ("colour = 1", "colour"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it_and_the_reason(tmp_path, text, reason):
    path = tmp_path / "namesrv.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=reason) as failure:
        load(path)
    assert str(path) in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")


def test_a_wrong_flag_is_named():
    with pytest.raises(ConfigError, match="flags: listen"):
        load(None, {"listen": "nowhere"})

from pathlib import Path

import pytest

from lakehouse.config import LandConfig
from lakehouse.errors import LakehouseError

FILE = """
tables_dir = "t"
checkpoint_dir = "c"
jars_dir = "j"
[kafka]
"bootstrap.servers" = "h:1"
"enable.ssl.certificate.verification" = true
"""


def test_a_file_is_read_and_flags_win_over_it(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(FILE)
    config = LandConfig.load(path, {"tables_dir": "other", "java_home": None})
    assert (config.tables_dir, config.java_home) == (Path("other"), None)
    # Kafka clients know true, not True.
    assert config.kafka["enable.ssl.certificate.verification"] == "true"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tables_dir = ", "is not TOML"),
        (FILE.replace('"bootstrap.servers" = "h:1"', ""), "bootstrap.servers"),
        (FILE.replace('jars_dir = "j"', ""), "jars_dir"),
        ("tabels_dir = 't'" + FILE, "tabels_dir"),
        ("driver_memory = 'lots'" + FILE, "driver_memory"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "land.toml"
    path.write_text(text)
    with pytest.raises(LakehouseError, match=words) as caught:
        LandConfig.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="cannot be read"):
        LandConfig.load(tmp_path / "none.toml")


def test_the_landing_session_is_made_for_small_commits(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(FILE)
    settings = LandConfig.load(path).spark_settings(tmp_path)
    assert settings.small_commits
    assert settings.jars_dir == Path("j")

import hashlib
from pathlib import Path

import pytest

from infra.jars import store
from infra.problems import Problem

DATA = b"the bytes of a jar"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A Maven repository in a folder with one jar."""
    place = tmp_path / "repository/org/example/thing/1.0"
    place.mkdir(parents=True)
    (place / "thing-1.0.jar").write_bytes(DATA)
    return tmp_path / "repository"


def lock(tmp_path: Path, data: bytes = DATA) -> Path:
    path = tmp_path / "thing.lock"
    path.write_text(f"# comment\n\n{hashlib.sha256(data).hexdigest()}  org.example:thing:1.0\n")
    return path


def test_a_missing_jar_is_fetched_checked_and_fetched_only_once(
    tmp_path: Path, repository: Path
) -> None:
    said: list[str] = []
    cache = tmp_path / "cache"
    fetch = lambda: store.fetch_lock(
        lock(tmp_path), cache, lambda: [repository.as_uri()], said.append
    )
    assert fetch() == 1 and (cache / "thing-1.0.jar").read_bytes() == DATA
    assert "1/1" in said[-1]
    assert fetch() == 0
    (cache / "thing-1.0.jar").write_bytes(b"torn")
    assert fetch() == 1 and (cache / "thing-1.0.jar").read_bytes() == DATA


def test_a_jar_with_a_wrong_hash_is_refused_and_not_kept(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(Problem, match="org.example:thing:1.0 .* wrong sha256"):
        store.fetch_lock(
            lock(tmp_path, b"other"),
            tmp_path / "cache",
            lambda: [repository.as_uri()],
            lambda text: None,
        )
    assert list((tmp_path / "cache").iterdir()) == []


def test_jars_that_the_lock_does_not_name_leave_the_class_path(
    tmp_path: Path, repository: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "old-0.9.jar").write_bytes(b"old")
    store.fetch_lock(lock(tmp_path), cache, lambda: [repository.as_uri()], lambda text: None)
    assert [path.name for path in cache.iterdir()] == ["thing-1.0.jar"]


def test_check_names_a_missing_and_a_changed_jar(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is missing .*make setup"):
        store.check("kafka", tmp_path)
    for jar in store.read_lock(store.LOCK_DIR / "kafka.lock"):
        (tmp_path / jar.file_name).write_bytes(b"x")
    with pytest.raises(Problem, match="wrong sha256"):
        store.check("kafka", tmp_path)


@pytest.mark.parametrize("line", ["nonsense", "00  a:b:c", f"{'0' * 64} a:b"])
def test_a_lock_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.lock"
    path.write_text(line)
    with pytest.raises(Problem, match="bad.lock:1"):
        store.read_lock(path)


def test_the_named_repository_wins_over_the_users_mirror_and_that_over_the_built_in(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "settings.xml"
    settings.write_text(
        "<settings "
        'xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror><mirrorOf>central</'
        "mirrorOf>"
        "<url>https://mirror.example/m2/</url></mirror></mirrors></settings>"
    )
    assert store.base_urls({"REGENT_MAVEN": ("https://own.example/")}, settings) == [
        "https://own.example"
    ]
    urls = store.base_urls({}, settings)
    assert urls[0] == "https://mirror.example/m2" and "maven2" in urls[-1]
    assert store.base_urls({}, tmp_path / "none") == urls[1:]


def test_the_cache_is_where_the_environment_says() -> None:
    assert store.jars_of("spark", {"REGENT_CACHE": "/somewhere"}) == Path("/somewhere/spark")


def test_the_released_locks_hold_what_is_started() -> None:
    kafka = {jar.coordinate for jar in store.read_lock(store.LOCK_DIR / "kafka.lock")}
    spark = {jar.coordinate for jar in store.read_lock(store.LOCK_DIR / "spark.lock")}
    assert "org.apache.kafka:kafka_2.13:4.3.1" in kafka and len(kafka) == 46
    assert "io.delta:delta-spark_4.2_2.13:4.4.0" in spark and len(spark) == 11


def test_jars_beyond_those_of_setup_are_fetched_by_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(
        store, "fetch_lock", lambda lock, folder, urls, say: fetched.append(lock.stem) or 1
    )
    assert store.fetch_all(print) == 2 and store.fetch_all(print, names=["s3"]) == 1
    assert fetched == ["kafka", "spark", "s3"]
    with pytest.raises(Problem, match=r"no jars are locked as azure.*kafka, s3, spark"):
        store.fetch_all(print, names=["azure"])

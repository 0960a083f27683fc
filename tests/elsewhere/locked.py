"""Anchors in a bucket whose objects are locked: who may write there may neither remove nor change
what was told, and a lake that was altered without a trace is held against it.

Refuses to know how anchors are made.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lakehouse.landing.anchoring import Anchoring, ToTable
from lakehouse.layers.whole import with_anchors
from lakehouse.proof.verify import verify_here
from lakehouse.tables.lake import Lake
from tests.elsewhere.object_store import ObjectStore
from tests.elsewhere.placed_job import environment
from tests.elsewhere.signed_request import asked
from tests.interop.stage import Row, Stage
from tests.support import tampered_lake
from tests.support.generated_history import generate
from tests.support.generated_lake import land_generated

BUCKET = "locked"
COMMANDS = 3_000
RETENTION = b"""<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode>
<Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>"""
REFUSED = 403
_VERSION = re.compile(r"<Version>.*?<Key>(.*?)</Key>.*?<VersionId>(.*?)</VersionId>", re.DOTALL)


def anchored(stage: Stage) -> list[Row]:
    """The rows of the place."""
    home = stage.work / "locked"
    lake = land_generated(home / "tables", generate(COMMANDS, 20, 11))
    with ObjectStore(home / "store", stage.say) as store, environment(store.credentials):
        _made(store)
        place = f"s3://{BUCKET}/anchors"
        sink = ToTable(place, store.storage_options)
        given = Anchoring(lake, home / "anchors.jsonl", [sink]).step()
        rows = [Row("anchors told", str(given), given > COMMANDS // 1_000)]
        rows.append(_held(lake, place, store, "a lake as it was", expected=0))
        stage.say("every version of every object is removed, in vain")
        rows.append(_removed(store))
        rows.append(_held(lake, place, store, "the same afterwards", expected=0))
        stage.say("the lake is altered, with all that it remembers")
        _altered(lake)
        rows.append(_held(lake, place, store, "a lake altered without a trace", expected=1))
    return rows


def _made(store: ObjectStore) -> None:
    lock = {"x-amz-bucket-object-lock-enabled": "true"}
    for answer in (
        asked(store.key, "PUT", f"/{BUCKET}", headers=lock),
        asked(store.key, "PUT", f"/{BUCKET}", {"object-lock": ""}, RETENTION),
    ):
        assert answer.status == 200, answer


def _removed(store: ObjectStore) -> Row:
    listed = asked(store.key, "GET", f"/{BUCKET}", {"versions": ""}).body.decode()
    versions = _VERSION.findall(listed)
    answers = [
        asked(store.key, "DELETE", f"/{BUCKET}/{name}", {"versionId": version}).status
        for name, version in versions
    ]
    refused = answers.count(REFUSED)
    return Row(
        "objects that may be removed",
        f"{len(answers) - refused} of {len(answers)}",
        bool(answers) and refused == len(answers),
    )


def _altered(lake: Lake) -> None:
    """A broker event is another one; sizes are right, nothing that was proven is left, silver says
    the same.
    """

    def change(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [*rows[:700], rows[700] | {"value": rows[701]["value"]}, *rows[701:]]

    tampered_lake.tamper(lake, "regent.broker-events", 700, change)
    tampered_lake.with_sizes_put_right(lake)
    shutil.rmtree(Path(lake.root) / "proof", ignore_errors=True)


def _held(lake: Lake, place: str, store: ObjectStore, what: str, expected: int) -> Row:
    found = with_anchors(verify_here(lake), lake, place, store.storage_options)
    told = [one for one in found.findings if "anchored" in one.said]
    result = told[0].text() if told else next((n for n in found.notices if "hold" in n), "")
    return Row(what, result, found.exit_code == expected and bool(told) == bool(expected))

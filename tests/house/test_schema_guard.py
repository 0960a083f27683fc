"""Released fingerprints are guarded: there is a file, and a test that compares it."""

from __future__ import annotations

import json

from source_tree import ROOT


def test_the_fingerprint_file_and_its_guard_exist() -> None:
    released = json.loads((ROOT / "schemas/fingerprints.json").read_text(encoding="utf-8"))
    assert released
    guard = ROOT / "tests/unit/schemas/test_schemas.py"
    assert "fingerprint" in guard.read_text(encoding="utf-8")


def test_every_record_has_one_schema_file_with_a_meaning_on_every_field() -> None:
    undocumented = []
    for path in sorted((ROOT / "schemas").rglob("*.avsc")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        if not schema.get("doc"):
            undocumented.append(path.name)
        undocumented += [
            f"{path.name}:{field['name']}"
            for field in schema.get("fields", [])
            if not field.get("doc")
        ]
    assert not undocumented

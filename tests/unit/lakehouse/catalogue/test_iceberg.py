"""What is registered in an Iceberg catalogue; the catalogue itself is met in
`tests/integration/test_other_tools.py`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lakehouse.catalogue.iceberg import PROPERTIES, files_listed, open_catalogue
from lakehouse.errors import LakehouseError
from lakehouse.tables import delta
from lakehouse.tables.specs import BRONZE
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, lake_in, land, outcome_records

RECORDS = with_master(1, 2, 3).records


def test_the_files_of_deltas_log_are_named_as_they_lie_there_with_their_partition(
    tmp_path: Path,
) -> None:
    lake = lake_in(tmp_path / "with space", "o brien")
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    found = files_listed(lake, BRONZE, delta.open_table(lake, BRONZE))
    assert {one.partition["topic"] for one in found.values()} == {
        "regent.commands",
        "regent.outcomes",
    }
    for path, one in found.items():
        assert path == one.path and Path(path.removeprefix("file://")).exists()
        assert one.partition["cluster_id"] == "o brien"


def test_nobody_may_remove_the_files_of_delta() -> None:
    assert PROPERTIES["gc.enabled"] == "false"


@pytest.mark.skipif(importlib.util.find_spec("pyiceberg") is not None, reason="it is there")
def test_without_pyiceberg_it_is_said_how_to_get_it() -> None:
    with pytest.raises(LakehouseError, match="pip install 'pyiceberg"):
        open_catalogue("http://127.0.0.1:9", {})

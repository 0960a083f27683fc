"""Whether a Java slave has copied the places of groups, judged from two answers to 43."""

import pytest

from tests.interop.features_mixed import has_places

TOLD = {"T@g": {"0": 5, "1": 7}, "rmq_sys_REVIVE_LOG_c@CID_RMQ_SYS_REVIVE_GROUP": {"3": 9}}
REVIVE = "rmq_sys_REVIVE_LOG_c@CID_RMQ_SYS_REVIVE_GROUP"


@pytest.mark.parametrize(
    ("own", "copied"),
    [
        pytest.param(TOLD, True, id="the same"),
        pytest.param({**TOLD, "T@g": {"0": 6, "1": 7}, "U@g": {"0": 1}}, True, id="later ones"),
        pytest.param({**TOLD, "T@g": {"0": 6, "1": 6}}, False, id="one of before"),
        pytest.param({**TOLD, REVIVE: {"3": 8}}, False, id="what is revived, of before"),
        pytest.param({**TOLD, "T@g": {"0": 5}}, False, id="a queue that it does not know"),
        pytest.param({}, False, id="nothing, as behind a start"),
    ],
)
def test_a_slave_has_copied_what_its_master_told(
    own: dict[str, dict[str, int]], copied: bool
) -> None:
    assert has_places(TOLD, own) is copied

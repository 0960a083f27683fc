"""The numbers that peers of other languages know."""

import json
from pathlib import Path

from brokers.remoting.codes import RequestCode, ResponseCode

WIRE = Path(__file__).parents[3] / "golden" / "wire"


def recorded(response: bool) -> set[int]:
    lines = [
        json.loads(line) for path in WIRE.glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    return {line["code"] for line in lines if bool(line["flag"] & 1) is response}


def test_every_recorded_request_code_has_a_name():
    # 9999 was sent to see how an unknown code is answered.
    assert recorded(response=False) - {9999} <= {int(code) for code in RequestCode}


def test_every_recorded_response_code_has_a_name():
    assert recorded(response=True) <= {int(code) for code in ResponseCode}


def test_our_own_requests_lie_where_rocketmq_has_none():
    ours = {code for code in RequestCode if code.name.startswith("REGENT_")}
    assert ours == {*range(19001, 19009), *range(19010, 19021)}
    assert not [code for code in RequestCode if 19000 <= code < 20000 and code not in ours]

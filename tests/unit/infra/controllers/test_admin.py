from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from infra.cli import main
from infra.cluster.data_folder import DataFolder
from infra.controllers.admin import ControllerAdmin, add_where, addresses_of, parse_addresses
from infra.problems import EXIT_USAGE, Problem
from tests.support import remoting_thread

Answer = Callable[[RemotingCommand], RemotingCommand | None]


def serving(answer: Answer) -> AbstractContextManager[str]:
    return remoting_thread.serving(lambda _, request: answer(request))


def leader(request: RemotingCommand) -> RemotingCommand:
    match request.code:
        case 1012:
            return request.reply(ext={"nextBrokerId": "4"})
        case 1011:
            return request.reply(2009, remark="broker 1 is alive")
        case 1010:
            return request.reply(body=b"# who\nb=2\na = 1\n")
        case 19003:
            return request.reply(body=b'{"term":7}')
    return request.reply(3, remark="request type not supported")


def test_addresses_come_with_semicolons_or_commas() -> None:
    assert parse_addresses("a:1; b:2,c:3") == ["a:1", "b:2", "c:3"]
    for wrong in ("", "a", "a:b", ";", "a:65536", "a:²"):
        with pytest.raises(Problem) as raised:
            parse_addresses(wrong)
        assert raised.value.exit_code == 2 and "HOST:PORT" in raised.value.way_out


def test_without_a_cluster_the_way_out_names_the_flag(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_where(parser)
    with pytest.raises(Problem) as raised:
        addresses_of(parser.parse_args(["--dir", str(tmp_path)]))
    assert "--controller HOST:PORT" in raised.value.way_out


def test_a_cluster_without_controllers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = argparse.ArgumentParser()
    add_where(parser)
    monkeypatch.setattr(DataFolder, "running_cluster", lambda _: {"controllers": []})
    with pytest.raises(Problem, match="has no controllers") as raised:
        addresses_of(parser.parse_args(["--dir", str(tmp_path)]))
    assert raised.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("text", ["0", "-3", "nan", "inf", "soon", "601"])
def test_a_timeout_that_cannot_be_waited_for_is_wrong_usage(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main.main(["controller", "status", "--timeout", text, "--controller", "h:1"]) == EXIT_USAGE
    )
    assert "seconds from 0.001 to 600" in capsys.readouterr().err


def test_properties_text_is_read_as_java_writes_it() -> None:
    with serving(leader) as address:
        assert ControllerAdmin([address]).config(address) == {"a": "1", "b": "2"}


def test_names_of_sets_go_out_as_rocketmq_reads_them() -> None:
    heard: list[RemotingCommand] = []

    def answer(request: RemotingCommand) -> RemotingCommand:
        heard.append(request)
        return request.reply(body=b'{"replicasInfoTable":{"a":{"masterEpoch":1}}}')

    with serving(answer) as address:
        assert ControllerAdmin([address]).sync_state_data(["a", "b"]) == {"a": {"masterEpoch": 1}}
    assert heard[0].body == b'["a","b"]'


def test_an_election_is_designated_and_a_kept_master_is_an_answer() -> None:
    heard: list[dict[str, str]] = []

    def answer(request: RemotingCommand) -> RemotingCommand:
        heard.append(request.ext)
        return request.reply(2011)

    with serving(answer) as address:
        assert ControllerAdmin([address]).elect("C", "a", 2).code == 2011
    assert (
        heard[0].items()
        >= {
            "clusterName": "C",
            "brokerName": "a",
            "brokerId": "2",
            "designateElect": "true",
        }.items()
    )


def test_cleaning_names_ids_only_when_there_are_some() -> None:
    heard: list[dict[str, str]] = []

    def answer(request: RemotingCommand) -> RemotingCommand:
        heard.append(request.ext)
        return request.reply()

    with serving(answer) as address:
        admin = ControllerAdmin([address])
        admin.clean("C", "a", [1, 3], living=True)
        admin.clean("C", "a")
    assert (
        heard[0]["brokerControllerIdsToClean"] == "1;3"
        and heard[0]["isCleanLivingBroker"] == "true"
    )
    assert (
        "brokerControllerIdsToClean" not in heard[1] and heard[1]["isCleanLivingBroker"] == "false"
    )


def test_an_answer_that_is_no_document_is_a_problem() -> None:
    with serving(lambda request: request.reply(body=b"[1]")) as address:
        with pytest.raises(Problem) as raised:
            ControllerAdmin([address]).state()
    assert "no JSON document" in raised.value.what


def test_a_status_that_is_not_given_is_none() -> None:
    with serving(leader) as address:
        assert ControllerAdmin([]).process_status(address) is None
    assert ControllerAdmin([], timeout_ms=200).process_status(address) is None


def test_many_sets_are_asked_for_in_parts_and_given_as_one_document() -> None:
    heard: list[dict[str, str]] = []
    parts = {
        "": b'{"applied_offset":5,"sets":{"a":1,"b":2},"next":"b"}',
        "b": b'{"applied_offset":6,"sets":{"c":3},"next":"c"}',
        "c": b'{"applied_offset":7,"sets":{}}',
    }

    def answer(request: RemotingCommand) -> RemotingCommand:
        heard.append(
            {name: value for name, value in request.ext.items() if name != "regentCommandId"}
        )
        return request.reply(body=parts[request.ext.get("after", "c")])

    with serving(answer) as address:
        admin = ControllerAdmin([address])
        assert admin.state() == {"applied_offset": 5, "sets": {"a": 1, "b": 2, "c": 3}}
        assert admin.state("a")["applied_offset"] == admin.state(sets=False)["applied_offset"] == 7
    assert heard == [
        {"after": ""},
        {"after": "b"},
        {"after": "c"},
        {"brokerName": "a"},
        {"sets": "false"},
    ]

"""What operators ask of controllers, one method per request, and the flags that say which
controllers are meant.

Responsible for: header fields and bodies of RocketMQ's admin requests (RULES 3) and of
ours.
Refuses to know: how a call reaches the leader (`controllers.calls`), and how answers are shown.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.addresses import written_address
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.controllers.calls import CALL_TIMEOUT_MS, ControllerCalls, NoAnswer, Refused, call
from infra.problems import EXIT_USAGE, Problem

TIMEOUT_MAX_S = 600
__all__ = ["ControllerAdmin", "Refused", "add_where", "addresses_of", "admin_of", "parse_addresses"]


def add_where(parser: argparse.ArgumentParser) -> None:
    """The flags that say which controllers are meant."""
    parser.add_argument(
        "--controller",
        metavar="HOST:PORT[;HOST:PORT]",
        help=("controllers to ask, any of them will do (default: those of the cluster in --dir)"),
    )
    add_dir(parser)
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=CALL_TIMEOUT_MS / 1000,
        metavar="S",
        help="seconds to wait for one answer (default %(default)g)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= TIMEOUT_MAX_S:  # neither is NaN
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from 0.001 to {TIMEOUT_MAX_S}"
        )
    return value


def admin_of(arguments: argparse.Namespace) -> ControllerAdmin:
    """The client for the controllers that `add_where`'s flags name."""
    return ControllerAdmin(addresses_of(arguments), int(arguments.timeout * 1000))


def addresses_of(arguments: argparse.Namespace) -> list[str]:
    """The addresses of --controller, else of the running cluster in --dir."""
    if arguments.controller is not None:
        return parse_addresses(arguments.controller)
    way_out = "Name controllers with --controller HOST:PORT, or a cluster's folder with --dir."
    folder = DataFolder(arguments.dir.absolute())
    try:
        found = list(folder.running_cluster()["controllers"])
    except Problem as problem:
        raise Problem(problem.what, way_out, problem.exit_code) from None
    if not found:
        text = f"the cluster in {folder.root} has no controllers: its sets elect nobody"
        raise Problem(text, way_out, EXIT_USAGE)
    return found


def parse_addresses(text: str) -> list[str]:
    """`a:1;b:2` (or with commas) as a list; Problem when one is no address."""
    found = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    for address in found:
        try:
            written_address(address)
        except ValueError as error:
            raise Problem(
                f"--controller: {error}", "Write HOST:PORT, several separated by ';'.", EXIT_USAGE
            ) from None
    if not found:
        raise Problem(
            "--controller names nobody", "Write HOST:PORT, several separated by ';'.", EXIT_USAGE
        )
    return found


class ControllerAdmin(ControllerCalls):
    """Calls to the controllers at `addresses`. The answers of reads are plain dictionaries."""

    # -- RocketMQ's own requests (RULES 3) -------------------------------------------------

    def metadata(self, address: str | None = None) -> dict[str, str]:
        """1005: the leader, as one controller sees it."""
        code = RequestCode.CONTROLLER_GET_METADATA_INFO
        if address is not None:
            return dict(self.ask(address, code).ext)
        return dict(self.ask_any(code)[1].ext)

    def sync_state_data(self, names: Sequence[str]) -> dict[str, Any]:
        """1006: set name -> replicas in and out of sync; names that nobody knows are left out."""
        answer = self.ask_leader(
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
            body=fastjson.dumps(list(names)),
            what="the sets",
        )
        found = fastjson.loads(answer.body, fastjson.TABLE_BYTES_MAX)
        return dict(found.get("replicasInfoTable", {})) if isinstance(found, dict) else {}

    def next_broker_id(self, cluster: str, name: str) -> int:
        """1012: the id the next broker of the set would get."""
        ext = {"clusterName": cluster, "brokerName": name}
        answer = self.ask_leader(
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, ext, what=(f"next id of {name}")
        )
        return int(answer.ext["nextBrokerId"])

    def elect(
        self, cluster: str, name: str, broker_id: int = -1, designate: bool = True
    ) -> RemotingCommand:
        """1002; 2011 (the current master is kept) counts as an answer."""
        ext = {
            "clusterName": cluster,
            "brokerName": name,
            "brokerId": str(broker_id),
            "designateElect": str(designate).lower(),
        }
        good = (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
        return self.ask_leader(
            RequestCode.CONTROLLER_ELECT_MASTER, ext, good=good, what=(f"election of {name}")
        )

    def clean(
        self, cluster: str, name: str, broker_ids: Sequence[int] = (), living: bool = False
    ) -> RemotingCommand:
        """1011: forget replicas, or the whole set when no ids are named."""
        ext = {
            "clusterName": cluster,
            "brokerName": name,
            "isCleanLivingBroker": str(living).lower(),
        }
        if broker_ids:
            ext["brokerControllerIdsToClean"] = ";".join(map(str, broker_ids))
        return self.ask_leader(RequestCode.CLEAN_BROKER_DATA, ext, what=f"cleaning {name}")

    def config(self, address: str) -> dict[str, str]:
        """1010: the configuration of one controller, RocketMQ's keys."""
        answer = self.ask(address, RequestCode.GET_CONTROLLER_CONFIG)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(f"configuration of {address}", answer, address)
        lines = (
            line.partition("=") for line in answer.body.decode("utf-8").splitlines() if "=" in line
        )
        return {key.strip(): value.strip() for key, _, value in lines if not key.startswith("#")}

    def update_config(self, address: str, values: Mapping[str, str]) -> RemotingCommand:
        """1009 to one controller."""
        body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
        answer = self.ask(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(f"configuration of {address}", answer, address)
        return answer

    # -- requests of ours --------------------------------------------------------------------------

    def state(self, name: str | None = None, *, sets: bool = True) -> dict[str, Any]:
        """The leader's document, read behind everything that was decided when it was asked for.

        `name`: with this set only; `sets` False: with none. Many sets come in parts, each as of the
        moment of its own answer; the rest of the document is as of the first.
        """
        document = self._state_part(
            {"brokerName": name} if name else {"after": ""} if sets else {"sets": "false"}
        )
        following = document.pop("next", None)
        while following is not None:
            part = self._state_part({"after": following})
            document["sets"].update(part["sets"])
            following = part.get("next")
        return document

    def _state_part(self, ext: Mapping[str, str]) -> dict[str, Any]:
        return _document(
            self.ask_leader(
                RequestCode.REGENT_CONTROLLER_STATE, ext, what=("the controllers' state")
            )
        )

    def process_status(self, address: str) -> dict[str, Any] | None:
        """What one controller says of itself; None when it does not answer."""
        try:
            answer = call(
                address,
                RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS),
                self._timeout_ms,
            )
        except NoAnswer:
            return None
        return _document(answer) if answer.code == 0 else None

    def change_settings(self, settings: Mapping[str, str]) -> RemotingCommand:
        """Settings that rules read: one recorded command."""
        body = fastjson.dumps({"settings": dict(settings)})
        return self.ask_leader(
            RequestCode.REGENT_CHANGE_SETTINGS, body=body, what=("settings not changed")
        )

    def activate_rules(self, rules_version: int) -> RemotingCommand:
        """Rules of another version, once every controller has them."""
        body = fastjson.dumps({"rules_version": rules_version})
        return self.ask_leader(
            RequestCode.REGENT_ACTIVATE_RULES,
            body=body,
            what=(f"rules {rules_version} not activated"),
        )

    def import_set(self, fields: Mapping[str, Any]) -> RemotingCommand:
        """One broker set of another controller."""
        what = f"set {fields.get('broker_name')} not imported"
        return self.ask_leader(
            RequestCode.REGENT_IMPORT_SET, body=fastjson.dumps(dict(fields)), what=what
        )

    def log_level(self, address: str, level: str, logger: str | None = None) -> RemotingCommand:
        """The log level of one controller, at once and until it ends."""
        answer = self.ask(
            address,
            RequestCode.REGENT_LOG_LEVEL,
            {"level": level, **({"logger": logger} if logger else {})},
        )
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(f"log level of {address}", answer, address)
        return answer

    def hand_over(self, address: str, broker_id: int | None = None) -> RemotingCommand:
        """The master at `address` hands its set over to the named replica, or to the best one; it
        says when that leads.
        """
        answer = self.ask(
            address,
            RequestCode.REGENT_HAND_OVER,
            {} if broker_id is None else {"targetBrokerId": str(broker_id)},
        )
        if answer.code != ResponseCode.SUCCESS:
            raise Refused("mastership not handed over", answer, address)
        return answer

    def transfer(self, controller_id: str | None = None) -> RemotingCommand:
        """The leader steps aside for the named controller, or for the best one."""
        ext = {"controllerId": controller_id} if controller_id else {}
        return self.ask_leader(
            RequestCode.REGENT_TRANSFER_LEADERSHIP, ext, what=("leadership not transferred")
        )


def _document(answer: RemotingCommand) -> dict[str, Any]:
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Problem(
            "a controller's answer is no JSON document", "Are all controllers of one release?"
        )
    return found


def versions(rules: object) -> tuple[int, ...]:
    """The rules versions a controller has, from a list or `1,2`; empty when it did not say."""
    parts = rules if isinstance(rules, (list, tuple)) else str(rules or "").split(",")
    return tuple(int(part) for part in parts if str(part).strip())

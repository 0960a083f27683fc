"""What the doctor lets people paste names their own cluster, and shows no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.doctor.commands import Commands, kafka_flags
from tests.support.pasted import why_not

FILES = {"c1": ("controller", Path("a folder/c1.toml"))}
KAFKA = {"bootstrap.servers": "k:1", "sasl.password": "hidden"}
ELSEWHERE = Commands(where=("--controller", "h:1;h:2"), kafka=KAFKA, files=FILES, tables="s3://b/t")
LOCAL = Commands(where=("--dir", "a folder"), kafka=KAFKA, files=FILES, local=Path("a folder"))
RUNS = Commands(where=("--dir", "d"), local=Path("d"), runs=True)


@pytest.mark.parametrize("commands", [ELSEWHERE, LOCAL, RUNS], ids=["elsewhere", "local", "runs"])
def test_each_is_known_to_the_command_line(commands: Commands) -> None:
    lines = [
        commands.controller("set", "broker-a"),
        commands.controller("upgrade", "--dry-run"),
        commands.topics("check"),
        commands.topics("repair"),
        commands.rebuild(),
        commands.look(),
        commands.revive("c1"),
        commands.revive("nobody"),
        commands.of_stranger("h:9"),
        commands.why_nobody_leads(),
        commands.history("lake check"),
        commands.history("explain", "broker-a"),
    ]
    if commands.local:
        lines += [commands.down(), commands.anew()]
    assert {line: why_not(line) for line in lines} == dict.fromkeys(lines)
    assert not [line for line in lines if "hidden" in line]


def test_a_process_is_started_from_its_own_file() -> None:
    started = ELSEWHERE.start("c1", "--peers", "c9=h:9")
    assert started == "regent controller --config 'a folder/c1.toml' --peers c9=h:9"
    assert ELSEWHERE.start("c2") is None and why_not(started) is None
    assert LOCAL.revive("c1").startswith("regent up"), "its supervisor starts it"


def test_what_lets_somebody_in_is_left_out() -> None:
    assert kafka_flags(KAFKA) == (
        "--kafka", "bootstrap.servers=k:1", "--kafka", "sasl.password=...",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("regent nonsense", "unknown command"),
        ("regent down --dir d && regent status --no-such", "no-such"),
        ("regent status 'open", "unexpected EOF"),
        ("", "no single line"),
    ],
)
def test_what_cannot_be_pasted_is_noticed(line: str, why: str) -> None:
    assert why in str(why_not(line))

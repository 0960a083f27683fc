"""What the proxy scenario makes of the gRPC client's lines."""

from tests.interop.judged_proxy import (
    CONSUMERS,
    DEAD_BELOW,
    REFUSED,
    has_all,
    is_committed,
    judged,
    read,
)

COUNT = 20
SENT_MS, DUE_MS = 1_000, 5_000


def got(consumer: str, number: int, attempt: int = 1, pop_ms: int = 2_000) -> str:
    group = f"g{number % 6}" if consumer == "fifo" else "-"
    at_ms = DUE_MS + 10 if consumer == "delay" else pop_ms
    feature = CONSUMERS[consumer].feature
    times = f"{pop_ms},{pop_ms + 12_000}"
    return f"got,{consumer},{number},{feature}{number},{attempt},{times},1,{group},{at_ms}"


def good_lines() -> list[str]:
    lines = []
    for number in range(COUNT):
        lines.append(f"sent,normal,{number},normal{number},-,-")
        lines.append(f"sent,fifo,{number},fifo{number},g{number % 6},-")
        lines.append(f"sent,delay,{number},delay{number},-,{DUE_MS}")
        lines.append(f"sent,transaction,{number},transaction{number},-,-")
        lines += [got(name, number) for name, reads in CONSUMERS.items() if reads.wanted(number)]
        if number % 4 >= 2:
            lines.append(f"asked,{number},1")
            lines.append(f"did,{number},change,30000,OK")
        if number % 4 in (1, 2):
            lines.append(got("simple", number, 2, 30_001))
        lines.append(f"did,{number},ack,60000,OK")
        if number % 5 == 4:
            lines.append(f"recalled,{number},OK")
    lines += [got("dead", number, 2, 20_000) for number in range(DEAD_BELOW)]
    lines += [f"failed,{one},{COUNT},X says: {word}" for one, word in REFUSED.items()]
    return [*lines, "end"]


def broken(*more: str, without: str | None = None) -> list[str]:
    lines = [line for line in good_lines() if without is None or not line.startswith(without)]
    return [row.what for row in judged(read([*lines, *more]), COUNT) if not row.ok]


def test_all_as_it_should_be_is_good_and_complete() -> None:
    assert broken() == []
    assert has_all(read(good_lines()))


def test_a_message_that_is_missing_changed_or_nobodys_is_named() -> None:
    assert broken(without="got,tags,3,") == ["consumer tags"]
    assert broken("got,all,99,x,1,1,2,1,-,3") == ["consumer all"]
    assert broken("got,sql,8,normal8,1,1,2,0,-,3", without="got,sql,8,") == ["consumer sql"]
    assert broken("got,sql,8,other,1,1,2,1,-,3", without="got,sql,8,") == ["consumer sql"]
    assert not has_all(read([one for one in good_lines() if not one.startswith("got,tags,3,")]))


def test_what_comes_twice_out_of_turn_or_early_is_named() -> None:
    assert broken(got("all", 1)) == ["consumer all"]
    assert "FIFO, order within groups" in broken(got("fifo", 0))
    early = f"got,delay,3,delay3,1,1,2,1,-,{DUE_MS - 1}"
    assert broken(early, without="got,delay,3,") == ["DELAY, none early"]


def test_a_message_that_was_taken_back_and_comes_is_named() -> None:
    assert "DELAY, recalled" in broken(got("delay", 4))
    assert broken("recalled,4,ClientException gone") == ["DELAY, recalled"]


def test_a_transaction_is_asked_about_and_comes_only_when_committed() -> None:
    assert broken(without="asked,3,") == ["TRANSACTION, questions"]
    rolled_back = next(one for one in range(COUNT) if not is_committed(one))
    assert broken(got("transaction", rolled_back)) == ["consumer transaction"]


def test_a_receipt_that_is_not_kept_is_named() -> None:
    receipts = "simple consumer: left, changed, acknowledged"
    assert broken(got("simple", 0, 2, 30_000)) == [receipts]
    assert broken(got("simple", 2, 2, 29_999), without="got,simple,2,normal2,2,") == [receipts]
    assert broken(without="got,simple,1,normal1,2,") == [receipts]
    assert broken("did,0,ack,1,Refused") == [receipts]


def test_an_attempt_too_many_of_what_always_fails_is_named() -> None:
    assert broken(got("dead", 0, 3, 40_000)) == ["attempts of what always fails"]


def test_a_send_of_the_wrong_kind_must_be_refused() -> None:
    accepted = f"sent,normal-to-fifo,{COUNT},x,-,-"
    assert broken(accepted, without="failed,normal-to-fifo") == ["refused, normal-to-fifo"]

"""Signs of a master that do not come from name servers."""

from __future__ import annotations

from brokers.acting.holding_back import MasterSigns


def test_a_link_is_a_sign_for_as_long_as_something_came_over_it() -> None:
    signs = MasterSigns(10_000)
    assert not signs.speaks(0)
    signs.link(True, 1_000)
    assert signs.speaks(11_000) and not signs.speaks(11_001)
    signs.link(False, 12_000)
    assert not signs.speaks(12_000)


def test_what_it_writes_is_a_sign_while_its_link_is_up() -> None:
    signs = MasterSigns(10_000)
    signs.wrote(1_000)
    assert not signs.delivers(1_000), "without a link it may be of long ago"
    signs.link(True, 11_000)
    assert signs.delivers(11_000) and not signs.delivers(11_001)
    signs.wrote(12_000)
    signs.link(False, 12_000)
    assert not signs.delivers(12_000)
    signs.link(True, 12_000)
    signs.forget()
    signs.link(True, 12_000)
    assert not signs.delivers(12_000)


def test_its_word_counts_until_it_says_otherwise_or_says_nothing() -> None:
    signs = MasterSigns(10_000)
    signs.says(5, delivers=True)
    assert signs.delivers(10_005) and not signs.delivers(10_006)
    signs.says(6, delivers=False)
    assert not signs.delivers(7)
    signs.says(8, delivers=True)
    signs.link(True, 8)
    signs.forget()
    assert not signs.delivers(8) and not signs.speaks(8)

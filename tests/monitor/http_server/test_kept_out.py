"""Who was cut off is kept out for a while, of any number of peers the latest."""

from __future__ import annotations

from monitor.http_server.kept_out import KeptOut


def test_peer_that_was_cut_off() -> None:
    """It is kept out for so long, others are not."""
    kept_out = KeptOut(seconds=2, most=3)
    kept_out.add("a", 10)
    assert [True, True, False, False] == [kept_out.holds("a", now) for now in (10, 11.9, 12, 12.1)]
    assert not kept_out.holds("b", 10)


def test_peer_that_is_cut_off_again() -> None:
    """Its time begins anew."""
    kept_out = KeptOut(seconds=2, most=3)
    kept_out.add("a", 10)
    kept_out.add("a", 11)
    assert [True, False] == [kept_out.holds("a", now) for now in (12.9, 13)]


def test_more_peers_than_are_remembered() -> None:
    """Those that were cut off first may come again."""
    kept_out = KeptOut(seconds=2, most=3)
    for peer in "abcad":
        kept_out.add(peer, 10)
    assert {"a", "c", "d"} == {peer for peer in "abcd" if kept_out.holds(peer, 10)}

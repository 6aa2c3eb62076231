"""The table of attacks."""

from __future__ import annotations

from types import SimpleNamespace

from tests.fakes.tally import BEGIN, END, attacks, with_attacks


def report(*tallied: object, failed: bool = False, when: str = "call") -> SimpleNamespace:
    return SimpleNamespace(
        user_properties=[("attack", of) for of in tallied], failed=failed, when=when
    )


def test_series_of_a_class_add_up_and_a_failed_test_is_a_failure() -> None:
    once = (
        report(["kills", 20, 0]),
        report(["kills", 1_000, 0], when="teardown"),
        report(["bytes", 9, 2], failed=True),
    )
    table = attacks([*once, report(["kills", 1_000, 0], failed=True), report()])
    assert table.splitlines()[2:] == ["| bytes | 9 | 2 |", "| kills | 1,020 | 1 |"]
    assert attacks([report()]) == ""


def test_a_page_keeps_the_classes_that_did_not_run() -> None:
    page = f"a\n\n{BEGIN}\n{attacks([report(['kills', 1, 0], ['bytes', 5, 0])])}\n{END}\n\nb\n"
    written = with_attacks(page, attacks([report(["kills", 7, 1], ["files", 3, 0])]))
    table = written.removeprefix(f"a\n\n{BEGIN}\n").removesuffix(f"\n{END}\n\nb\n")
    assert table.splitlines()[2:] == ["| bytes | 5 | 0 |", "| files | 3 | 0 |", "| kills | 7 | 1 |"]
    assert with_attacks(written, attacks([report(["kills", 7, 1])])) == written

"""Numbers too long to be read are no amounts, and end no judgement."""

from __future__ import annotations

import pytest

from drike.answers.statements import Stated, stated

LONG = "1" * 6_000  # Python refuses to read more than 4,300 digits


@pytest.mark.parametrize(
    "form",
    [
        "{}", "{} days", "{}.5 euros", "1,{}", "{} times a day", "every {} hours", "{} million",
        "at intervals of {} days", "{}:30", "in {}", "version {}.{}", "from {} to {}", "{} %",
    ],
)  # fmt: skip
@pytest.mark.parametrize("new", ["14 days", "$3.5 million", "every 6 hours", "8 pm", "2.3"])
def test_a_number_of_thousands_of_digits_is_none(form: str, new: str) -> None:
    answer = form.replace("{}", LONG)
    assert stated(answer, [new], ["5 km"], about=["it"], question="How much?") is Stated.NEITHER

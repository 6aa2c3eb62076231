from drike.editors.factprompt import FactPrompt
from tests.worlds.small import CAPITALS


def test_factprompt_adds_one_imagine_line() -> None:
    [prompt] = FactPrompt().prompts([CAPITALS[3].edit], ["Land3 has the capital"])
    assert prompt.text == "Imagine that The capital of Land3 is New3.\nLand3 has the capital"

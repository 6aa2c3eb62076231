import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import drike
from drike import tinyfacts
from drike.edits.record import EditRecord
from drike.errors import ModelError
from drike.prompts import Prompt
from drike.research.evaluation.judge import Judge, Question
from drike.stores.opening import open_store

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGE = ROOT / "docs" / "reference" / "store.md"


def test_every_public_name_exists_and_is_documented() -> None:
    assert {"evaluate", "load_model", "load_dataset", "load_checkpoint", "PromptStyle"} <= set(
        drike.__all__
    )
    assert dir(drike) == drike.__all__
    for name in drike.__all__:
        assert getattr(drike, name).__doc__, name
        assert getattr(drike, name) is getattr(drike, name)
        assert find_spec(f"drike.{name}") is None, (
            "a module would hide the name once it is imported"
        )


def classes_in_annotations(name: str) -> Iterator[type]:
    """The classes of drike in the annotations of a public function, or of a public class and its public methods."""
    found = getattr(drike, name)
    members = [found]
    if isinstance(found, type):
        members += [
            member
            for key, member in vars(found).items()
            if key == "__init__" or not key.startswith("_")
        ]
    for member in members:
        function = (
            member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        )
        known = vars(sys.modules[found.__module__])
        for word in re.findall(
            r"[A-Z]\w+", " ".join(map(str, getattr(function, "__annotations__", {}).values()))
        ):
            if isinstance(known.get(word), type) and known[word].__module__.startswith("drike."):
                yield known[word]


def test_arguments_and_results_of_public_functions_are_public() -> None:
    public = {id(getattr(drike, name)) for name in drike.__all__}
    assert {
        one.__name__
        for name in drike.__all__
        for one in classes_in_annotations(name)
        if id(one) not in public
    } == set()


def test_the_readme_calls_only_public_names() -> None:
    called = set(re.findall(r"\bdrike\.([A-Za-z_]+)\(", README))
    assert called, "the README must show the Python API"
    assert called <= set(drike.__all__)


def test_the_python_examples_in_the_readme_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run with the embedded model and few rows, otherwise unchanged."""
    few = tmp_path / "few.json"
    few.write_text(json.dumps(json.loads(tinyfacts.ROWS.read_text("utf-8"))[:200]), "utf-8")
    corrections, program, own = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    replaced = {
        '"path/or/name"': repr(str(tinyfacts.MODEL)),
        '"counterfact.json"': repr(str(few)),
        "data.split(seed=0)": "data.split(seed=0, train=3, test=2)",
        "rewrite_reward(model), split.train)": "rewrite_reward(model), split.train, epochs=1)",
    }
    for old, new in replaced.items():
        assert program.count(old) == 1
        program = program.replace(old, new)
    names: dict[str, Any] = {"my_program": lambda prompt: " Oslo\n"}
    exec(compile(program, "README.md", "exec"), names)
    assert re.search(r"^Editor +S +ESR +PC +RR", capsys.readouterr().out, re.MULTILINE)
    exec(compile(own, "README.md", "exec"), names)
    assert names["edited"].ask("Which city governs Peru? It is")
    mine = drike.EditedModel(
        names["mine"],
        drike.FactPrompt(),
        drike.Edit("The capital of Peru is", "Oslo", subject="Peru"),
    )
    assert mine.ask("The capital of Peru is") == "Oslo"
    monkeypatch.chdir(tmp_path)
    with closing(open_store("edits.db")) as store:
        store.put(EditRecord("Peru", "The capital of Peru is", "Oslo"))
    sent = SimpleNamespace(create=lambda **request: request["messages"][0]["content"])
    client = SimpleNamespace(OpenAI=lambda: SimpleNamespace(chat=SimpleNamespace(completions=sent)))
    names = {"drike": drike, "openai": client}
    exec(compile(corrections, "README.md", "exec"), names)
    assert "- The capital of Peru is Oslo\n" in names["answer"]
    names["edits"].close()


def test_the_python_examples_on_the_page_about_the_store_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for program in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(program.replace("timeout=30", "timeout=0"), PAGE.name, "exec"), names)
    assert "No edit applies" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([7], "mine.generate returned a int: return drike.Completions"),
        ([None], "mine.generate returned a NoneType: return drike.Completions"),
        ([], "returned 0 answers to 1 prompts"),
    ],
)
def test_a_model_returning_the_wrong_type_gets_a_clear_error(
    answers: list[Any], expected: str
) -> None:
    with pytest.raises(ModelError, match=expected):
        Judge(drike.CustomModel("mine", lambda *asked: answers)).ask(
            [Question(Prompt("The capital of Peru is"), "Oslo")]
        )

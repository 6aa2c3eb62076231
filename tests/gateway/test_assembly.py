"""The parts of a gateway follow from its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from drike.cli.gateway_parts import gateway_parts
from drike.conversations.rendering import Facts, Placement
from drike.conversations.turns import Api
from drike.edits.record import EditVersion
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate, to_json
from drike.gateway import assembly
from drike.gateway.assembly import Deployed, deployed
from drike.gateway.options import GatewayOptions
from drike.gateway.parts import GatewayParts, OpenedEditor
from drike.gateway.start import start
from drike.models import named
from drike.models.protocols import Completion
from drike.research.editors.placements import demonstrating
from drike.stores.edit_store import EditStore
from drike.stores.opening import open_store
from tests.fakes.gateways import ENTRY
from tests.fakes.models import ScriptedModel

UPSTREAM = GatewayOptions(upstream="http://127.0.0.1:9/v1", gate="named")
ASKED = "The capital of Peru is"


def written(options: GatewayOptions, place: Path, api: Api) -> str:
    """What stands before a question, in a request to one of the APIs."""
    store = open_store(place / "edits.db", create=True)
    store.put(ENTRY)
    gateway = deployed(options, store, gateway_parts())
    store.close()
    edit = EditVersion(1, 1, 1, "", ENTRY)
    return gateway.editor.placements[api].around(Facts((edit,), ASKED), ASKED, "default").before


@pytest.mark.parametrize("api", list(Api))
def test_no_api_before_an_upstream_gets_demonstrations_unless_they_are_asked_for(
    api: Api, tmp_path: Path
) -> None:
    text = written(UPSTREAM, tmp_path, api)
    assert "Oslo" in text and not made_up(text)


@pytest.mark.parametrize("api", list(Api))
def test_demonstrations_that_are_asked_for_are_written(api: Api, tmp_path: Path) -> None:
    assert len(made_up(written(replace(UPSTREAM, demonstrations=2), tmp_path, api))) == 2


def test_a_trial_waits_on_a_busy_machine(tmp_path: Path) -> None:
    store = open_store(tmp_path / "edits.db", create=True)
    store.put(ENTRY)
    for given, seconds in ((None, 60), (200.0, 0.2)):
        gateway = deployed(replace(UPSTREAM, deadline_ms=given), store, gateway_parts())
        assert gateway.editor.deadline(gateway.feed) == seconds
    store.close()


def made_up(text: str) -> list[str]:
    """The facts of demonstrations: those of a text that the edit does not state."""
    facts = [line.removeprefix("New Fact: ") for line in text.splitlines() if "New Fact: " in line]
    return [fact for fact in facts if "Oslo" not in fact]


class ChatModel(ScriptedModel):
    """A model that chats."""

    chats = True

    def reply(self, messages: object, max_tokens: int, tell: object) -> Completion:
        return Completion("Lima.")


def test_a_real_chat_model_answers_by_default_and_is_shown_no_made_up_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named, "is_here", lambda name: name == "smollm2")
    opened: list[str] = []

    def load(name: str, **options: object) -> ChatModel:
        opened.append(name)
        return ChatModel(lambda prompt: "")

    monkeypatch.setattr(assembly, "load_model", load)
    monkeypatch.chdir(tmp_path)
    store = open_store(tmp_path / "edits.db")
    for options, shows in (
        ({}, False),
        ({"demonstrations": 0}, False),
        ({"demonstrations": 3}, True),
    ):
        gateway = deployed(GatewayOptions(**options), store, gateway_parts())  # type: ignore[arg-type]
        assert gateway.chats
        placement = gateway.editor.placements[Api.CHAT]
        assert (getattr(placement, "editor", None) is not None) == shows
    assert opened == ["smollm2"] * 3
    store.close()

    (tmp_path / "edits.db").unlink()
    started = start(GatewayOptions(port=0, admin_port=0, gate="named"), gateway_parts())
    assert started.example == "The capital of Peru is"  # not a fact that TinyFacts' model knows
    started.tenants.close()
    for listening in started.sockets:
        listening.close()


def with_policy(run_folder: str | None, most: int | None) -> OpenedEditor:
    return OpenedEditor(demonstrating(0), default_gate())


def no_placements(chats: bool) -> Mapping[str, Placement]:
    return {}


def policy_deployed(store: EditStore, **options: object) -> Deployed:
    of_run = GatewayOptions(upstream="http://127.0.0.1:9/v1", run="runs/mine")
    return deployed(
        replace(of_run, **options),  # type: ignore[arg-type]
        store,
        GatewayParts(with_policy, no_placements),
    )


def test_what_overrules_the_policy_of_a_run_is_said(tmp_path: Path) -> None:
    store = open_store(tmp_path / "edits.db", create=True)
    policy = default_gate()
    own = replace(policy, threshold=0.5)
    assert policy_deployed(store).feed.gate == policy and not policy_deployed(store).notes

    [said] = policy_deployed(store, gate="named").notes
    assert "--gate" in said and "not the policy of runs/mine" in said
    assert isinstance(policy_deployed(store, gate="named").feed.gate, Named)

    store.save_gate(to_json(own))
    [said] = policy_deployed(store).notes
    assert "calibrated for the store decides" in said and "drike edits calibrate --remove" in said
    assert policy_deployed(store).feed.gate.threshold == 0.5

    store.save_gate("")  # as --remove does
    assert policy_deployed(store).feed.gate == policy and not policy_deployed(store).notes
    store.close()

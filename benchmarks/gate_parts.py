"""What each part of the gate is worth: left out one at a time, on all development questions. No model is asked.

A part is a rule (a function that answers as if its rule did not exist), a feature of the fitted heads (its mean over
all candidates stands in for it; the heads are not fitted anew, which flatters the feature), or a list of words or
phrases (read as if it were empty). Each is left out in a process of its own, before anything is read.

The questions are the development halves of the sets of firms (`firms.py`), our own (`questions.py`), those that
presuppose what an edit changed (`premises.py`), and published ones (`gate.py`: the first half of HalluEditBench and of
QAEdit, every twentieth question) if the folder --data is there. *Present* and *needless* are as in these: the share of
questions that want edits which get them all, and of those that want none which get any. A row says what leaving the
part out changes. A part that changes nothing by .003 or more anywhere is worth nothing here, which does not say that it
is worth nothing elsewhere: lists of other languages have few questions here.

    python benchmarks/gate_parts.py [--only rules|features|lists] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from drike.encoders import FloatArray, load_encoder
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.calibration import default_gate
from drike.text import word_lists
from lib import pages

TITLE = "What each part of the gate is worth"
LEAST = 0.003
RULES, FEATURES, LISTS = "rules", "features", "lists"
PRESENT, NEEDLESS = 0, 3  # places in questions.METRICS
EVERY = 20  # of the published questions every n-th is asked
FIRMS = ("firms", "firms_talk", "firms_further", "firms_direct", "firms_quiet", "firms_asked")
OWN = ("tune", "development", "further", "blind", "second")
PREMISES = ("development", "test", "further", "fresh")
GROUPS = ("firms", "own", "premises", "published")

Counts = FloatArray  # hits and cases of each of questions.METRICS, (4, 2)


def _nothing(*_: object, **__: object) -> None:
    return None


def _no(*_: object, **__: object) -> bool:
    return False


def _empty(*_: object, **__: object) -> list[Any]:
    return []


def _no_attributes(*_: object) -> dict[str, frozenset[str]]:
    return {}


def _unchanged(text: Any, *_: object, **__: object) -> Any:
    return text


# Functions, by what they are for, with what answers as if their rule did not exist.
RULE_PARTS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "short forms of names": ("drike.text.short_forms.short_forms", _empty),
    "misspelt names": ("drike.gates.misspelt_names.misspelt_names", _empty),
    "people by first and last name": ("drike.gates.people.people_by_pair", _empty),
    "people by last name": ("drike.gates.people.people_by_last_name", _empty),
    "new objects that are named": ("drike.gates.names.objects_in", _empty),
    "names that are words": ("drike.text.ordinary_words.used_as_word", _no),
    "glossary of other languages": ("drike.text.glossary.glossed", _unchanged),
    "misspelt words": ("drike.text.spelling.corrected", _unchanged),
    "other times, people and cases": ("drike.gates.relations.about_another", _no),
    "other times": ("drike.text.times.is_of_other_time", _no),
    "premises": ("drike.gates.premises.held", _nothing),
    "questions for yes or no": ("drike.text.closed_questions.asks_beyond", _no),
    "sisters of what an edit is about": ("drike.text.contrasts.asks_for_sister", _no),
    "attributes as they are asked for": ("drike.text.attributes.asked_attributes", _no_attributes),
    "kinds of values": ("drike.text.value_kinds.takes", lambda *_: True),
    "who a person is": ("drike.text.question_forms.asks_role", _no),
    "whole subjects": ("drike.gates.whole_subjects.whole_subjects", lambda _p, _i, found: found),
    "chains": ("drike.gates.chains.joined", _unchanged),
    "texts passed on": ("drike.text.passed_on.passed_on", _nothing),
    "whose assistant is asked": ("drike.conversations.hosts.host_of", _nothing),
}


@dataclass(frozen=True)
class Question:
    """A question with the names of the edits that it wants and that it gets."""

    group: str
    wanted: frozenset[Any]
    applied: frozenset[Any]


def main() -> None:
    """Print a table of all parts, or, for one of its processes, the counts without a part."""
    parser = pages.parser(__doc__)
    parser.add_argument("--only", choices=(RULES, FEATURES, LISTS), help="of the parts")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--data", type=Path, default=Path("../shared/datasets"))
    parser.add_argument("--without", metavar="PART", help="print the counts without a part as JSON")
    parser.add_argument("--means", default="{}", help="of features, as JSON")
    options = parser.parse_args()
    if options.without is not None:
        print(json.dumps(measured(options.without, json.loads(options.means), options.data)))
        return
    with pages.measured(options, TITLE, __doc__):
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Print what leaving out each part changes; progress goes to standard error."""
    whole = _in_process("", {}, options.data)
    names = [name for name in parts() if not options.only or name.startswith(options.only)]
    with ThreadPoolExecutor(options.jobs) as pool:
        without = pool.map(lambda name: _in_process(name, whole["means"], options.data), names)
        changes = {}
        for name, counts in zip(names, without, strict=True):
            changes[name] = _rates(counts["counts"]) - _rates(whole["counts"])
            print(name, np.round(changes[name], 4).tolist(), file=sys.stderr, flush=True)
    header = ("part", *(f"{group}, {rate}" for group in GROUPS for rate in ("present", "needless")))
    rates = [f"{rate:.3f}" for rate in _rates(whole["counts"])]
    pages.draw("Nothing left out", header, [["", *rates]])
    told = {name: change for name, change in changes.items() if np.nanmax(np.abs(change)) >= LEAST}
    by_worth = sorted(told, key=lambda name: -np.nanmax(np.abs(told[name])))
    rows = [[name, *(f"{value:+.3f}" for value in told[name])] for name in by_worth]
    pages.draw("Change where a part is left out, the largest first", header, rows)
    rest = sorted(changes.keys() - told.keys())
    print(f"\nNo rate changes by {LEAST} or more without: {'; '.join(rest) or 'none'}.\n")


def _in_process(part: str, means: Mapping[str, float], data: Path) -> Mapping[str, Any]:
    """`measured` in a process of its own."""
    command = [sys.executable, __file__, "--without", part, "--means", json.dumps(means)]
    command += ["--data", str(data)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{part or 'nothing'} left out: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _rates(counts: Mapping[str, Any]) -> FloatArray:
    """Present and needless of each of GROUPS."""
    rates = []
    for group in GROUPS:
        hits_and_cases = np.array(counts.get(group, np.zeros((4, 2))), float)
        with np.errstate(invalid="ignore"):
            rates += [hits_and_cases[place, 0] / hits_and_cases[place, 1] for place in (0, 3)]
    return np.array(rates)


def parts() -> list[str]:
    """The names of all parts, each with its kind: "lists: text/names.txt [titles]"."""
    rules = [f"{RULES}: {name}" for name in RULE_PARTS]
    gate = default_gate()
    heads = (gate.named, gate.crowded or gate.named)
    features = dict.fromkeys(chain.from_iterable(head.weights for head in heads))
    return [
        *rules,
        *(f"{FEATURES}: {name}" for name in features),
        *(f"{LISTS}: {name}" for name in _lists()),
    ]


def _lists() -> Iterator[str]:
    """The lists of the data files by file and heading, kind of phrase, or language."""
    folder = Path(word_lists.__file__).parent
    for file in ("names.txt", "relation_words.txt", "things.txt"):
        for heading in word_lists.data_sections(f"text/{file}"):
            yield f"text/{file} [{heading}]"
    lines = word_lists.data_lines("text/phrases.txt")
    for kind in dict.fromkeys(line.partition(": ")[0].split()[1] for line in lines):
        yield f"text/phrases.txt {kind}"
    for file in sorted(path.name for path in (folder / "relations").glob("*.txt")):
        yield f"text/relations/{file}"


def measured(part: str, means: Mapping[str, float], data: Path) -> Mapping[str, Any]:
    """Hits and cases of each group of questions without a part, and the means of the features."""
    kind, _, name = part.partition(": ")
    if kind == LISTS:
        leave_out_list(name)
    questions = import_module("questions")  # which reads lists
    with_sets = (_firms, _own, _premises, _published)
    import_module("drike.conversations.following")
    if kind == RULES:
        leave_out_rule(*RULE_PARTS[name])
    seen: dict[str, list[float]] = defaultdict(list)
    _watch_features(seen, {name: means[name]} if kind == FEATURES else {})
    counts: dict[str, Counts] = {}
    for question in chain.from_iterable(read(default_gate(), data) for read in with_sets):
        counted = questions.counted(question.wanted, question.applied)
        counts[question.group] = counts.get(question.group, np.zeros((4, 2))) + counted
    return {
        "counts": {group: hits_and_cases.tolist() for group, hits_and_cases in counts.items()},
        "means": {name: float(np.mean(values)) for name, values in seen.items()},
    }


def leave_out_list(name: str) -> None:
    """Read one list of a data file as if it were empty."""
    file, _, rest = name.partition(" ")
    lines_of, sections_of = word_lists.data_lines, word_lists.data_sections

    def lines(asked: str) -> list[str]:
        kept = lines_of(asked)
        if asked != file or rest.startswith("["):
            return kept
        return [line for line in kept if line.partition(": ")[0].split()[1] != rest]

    def sections(asked: str) -> dict[str, list[str]]:
        found = sections_of(asked)
        return {h: [] if asked == file and f"[{h}]" == rest else found[h] for h in found}

    if file.startswith("text/relations/"):
        _leave_out_relations(file)
    replace_everywhere(lines_of, lines)
    replace_everywhere(sections_of, sections)


def _leave_out_relations(file: str) -> None:
    """Have the relations of one file of the inventory not come with drike."""
    wordings = import_module("drike.text.relation_wordings")
    text = Path(word_lists.__file__).parent.parent.joinpath(file).read_text("utf-8")
    left_out = {relation.name for relation in wordings.relations_in(text, file)}
    kept = tuple(relation for relation in wordings.built_in() if relation.name not in left_out)
    replace_everywhere(wordings.built_in, lambda: kept)


def leave_out_rule(path: str, stand_in: Callable[..., Any]) -> None:
    """Have a function that stands for a rule answer as if that did not exist."""
    module, _, name = path.rpartition(".")
    function = getattr(import_module(module), name)
    if path.endswith(".held"):
        not_held = import_module(module).Held.NOT
        stand_in = lambda *_: not_held  # noqa: E731
    if path.endswith(".host_of"):
        nobody = import_module(module).Host()
        stand_in = lambda *_: nobody  # noqa: E731
    replace_everywhere(function, stand_in)


def replace_everywhere(function: Callable[..., Any], stand_in: Callable[..., Any]) -> None:
    """Put another function in its place in every module that has it. Raises ValueError for none."""
    places = [
        (module, name)
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("drike")
        for name, value in list(vars(module).items())
        if value is function
    ]
    if not places:
        raise ValueError(f"{function.__name__} is used nowhere")
    for module, name in places:
        setattr(module, name, stand_in)


def _watch_features(seen: dict[str, list[float]], stand_ins: Mapping[str, float]) -> None:
    """Keep the values of all features that heads weigh, and put others in the place of some."""
    logit = LogisticHead.logit

    def watched(head: LogisticHead, features: Mapping[str, float]) -> float:
        for name in head.weights:
            seen[name].append(features.get(name, 0.0))
        return logit(head, {**features, **stand_ins})

    LogisticHead.logit = watched  # type: ignore[method-assign]


def _firms(gate: Calibrated, _data: Path) -> Iterator[Question]:
    firms = import_module("firms")
    encoder = load_encoder(gate.encoder)
    for name in FIRMS:
        for firm in firms.read_firms(firms.DEVELOPMENT, firms.SETS / f"{name}.csv").values():
            index = firms.NamedIndex.of(firm.facts, encoder)
            for asked in firm.questions:
                applied = index.applied(asked, gate) - (asked.allowed - asked.wanted)
                yield Question("firms", asked.wanted, applied)


def _own(gate: Calibrated, _data: Path) -> Iterator[Question]:
    questions = import_module("questions")
    for half in OWN:
        edits, file = questions.FILES[half]
        yield from _asked("own", gate, questions.FOLDER / edits, questions.FOLDER / file, half)


def _premises(gate: Calibrated, _data: Path) -> Iterator[Question]:
    for half in PREMISES:
        yield from _asked("premises", gate, *import_module("premises").FILES[half], half)


def _asked(group: str, gate: Calibrated, edits: Path, file: Path, half: str) -> Iterator[Question]:
    questions = import_module("questions")
    index = questions.stored_index(edits, load_encoder(gate.encoder))
    asked = [one for one in questions.read_questions(file) if one.half == half]
    for one, applied in zip(asked, questions.applied_ids(gate, index, asked), strict=True):
        yield Question(group, one.wanted, applied)


def _published(gate: Calibrated, data: Path) -> Iterator[Question]:
    if not data.exists():
        return
    published = import_module("gate")
    index_of = import_module("drike.gates.index").EditIndex.of
    sources: Sequence[Any] = (
        published.halluedit(data),
        published.knowedit(data / "qaedit_1k.json", "QAEdit"),
    )
    for source in sources:
        index = index_of(source.edits, load_encoder(gate.encoder))
        asked = [
            *source.of_half(0, "paraphrase", "rewrite"),
            *source.of_half(0, "same_subject", "neighborhood"),
        ]
        for one in asked[::EVERY]:
            own = one.place + 1
            applied = {edit.id for edit in gate.decide(one.query, index).applied}
            wants = one.kind in ("paraphrase", "rewrite")
            yield Question(
                "published", frozenset({own} if wants else ()), frozenset(applied & {own})
            )


if __name__ == "__main__":
    main()

"""The paper's editors, DR-IKE-Q and simple rules on a real language model, judged greedily and by likelihood.

Every probe of the training and test edits is asked under each choice: the query alone, each mix of DR-IKE-Q, and IKE's
prompt; both judges and the unedited model's own answer are read off in one pass. So every editor that chooses for each
query among these needs no further answer: the rules, the best mix in hindsight, and DR-IKE-Q under any objective, price
or threshold. What DR-IKE, Rank-50 % and Rank-All show depends on a training (Algorithm 1) and is asked after it. Seeds
draw their own training and test edits; an edit that several of them draw is asked once, and counts as one case.

Answers are kept in a folder as they come (`--answers`): a stopped command goes on where it was, and `--replay` computes
the tables again without a model. `--minutes` ends the asking in time, the most important first: the edits of the first
seed, the trainings, the edits of the others. `--processes` share the work; on several machines or cards, start each
part with `--part K/N` and put the files together.

Greedy: an answer is right if greedy decoding would write exactly the target. RR counts all neighbours, RR known those
that the unedited model answers right, RR unchanged the answers that are its own, letter for letter. Likelihood (ES, PS,
NS): the target is more probable than the other object. Rules by name: a query that names the edit's subject is shown
copies and updates, or the fact alone; any other is left alone. Mixes by kind: one for the edit's own query, one for
others that name the subject, one for the rest, chosen on training edits, or in hindsight on the test edits.

    python benchmarks/real_models.py --model smollm2 --data FILE --train 300 --test 200 --seeds 3 --processes 3
    python benchmarks/real_models.py --model smollm2 --data FILE --train 300 --test 200 --seeds 3 --replay --write
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from drike import load_model
from drike.edits.edit import EditCase
from drike.encoders import MINILM, TextEncoder, load_encoder
from drike.models.protocols import LanguageModel
from drike.research import datasets
from drike.research.datasets import Dataset
from drike.research.datasets.dataset import Split
from drike.research.editors.budgets import Threshold
from drike.research.editors.dr_ike import Trained, dr_ike, rank_all, rank_half
from drike.research.editors.editor import Editor
from drike.research.editors.ike import ike
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut, RoleCounts, policy_mixes
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.judge import GREEDY, Judge
from drike.research.evaluation.unedited_answers import (
    UneditedAnswer,
    answers_by_group,
    neighbours_by_case,
)
from drike.research.training.algorithm1 import (
    Episode,
    EpisodeRecord,
    replayed,
    rewrite_reward,
    train,
)
from drike.support.parallel import in_groups
from drike.support.records import read
from lib import pages
from lib.kept_answers import (
    AnswerFile,
    Asked,
    Kept,
    Key,
    ask_edits,
    path_of,
    read_kept,
)
from lib.real_rows import Material, show_tables

TITLE = "Real language models"
DATA = "../shared/datasets/counterfact_rebuilt.json.gz"
IKE_CHOICE, ALONE = "IKE", "unedited"
LEARNED = ("DR-IKE", "Rank-50%", "Rank-All")
FIRST_EPISODES = 3  # are timed before the rest


def main() -> None:
    """Ask what is missing, then print the tables."""
    options = _parser().parse_args()
    if options.data == DATA and not Path(DATA).exists():
        say(f"left out: there is no {DATA} here; give a data set as --data")
        return
    if options.processes > 1 and not options.replay:
        _run_parts(options.processes)
    with pages.measured(options, TITLE, __doc__):
        _measure(options)


def _parser() -> argparse.ArgumentParser:
    parser = pages.parser(__doc__)
    parser.add_argument("--model", default="smollm2", help="model to ask")
    parser.add_argument("--data", default=DATA, help="a data set, also a file in .gz")
    parser.add_argument("--train", type=int, default=20, help="training edits of a seed")
    parser.add_argument("--test", type=int, default=20, help="test edits of a seed")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--epochs", type=int, default=3, help="of DR-IKE's training")
    parser.add_argument("--minutes", type=float, default=10.0, help="to ask for; 0: no limit")
    parser.add_argument("--device", default=None, help="cpu, cuda; default: the best there is")
    parser.add_argument("--encoder", default=MINILM, help="encoder, or its folder")
    parser.add_argument("--at-once", type=int, default=0, help="edits of a call; 0: by the device")
    parser.add_argument("--processes", type=int, default=1, help="that share the asking")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the part of one of them")
    parser.add_argument("--replay", action="store_true", help="only the tables, without a model")
    parser.add_argument("--price", type=float, default=0.05, help="of DR-IKE-Q's prompts")
    answers = Path(tempfile.gettempdir()) / "drike-real-models"
    parser.add_argument("--answers", type=Path, default=answers, help="folder of kept answers")
    return parser


def _run_parts(processes: int) -> None:
    """Run the parts side by side, and wait for all of them."""
    parts = [
        subprocess.Popen([sys.executable, *sys.argv, "--processes=1", f"--part={k}/{processes}"])
        for k in range(1, processes + 1)
    ]
    failed = [part for part in parts if part.wait()]
    if failed:
        sys.exit(f"{len(failed)} of {processes} parts failed: run the command again to go on")


def _measure(options: argparse.Namespace) -> None:
    work = Work.of(options)
    part, _, parts = options.part.partition("/")
    if not options.replay and options.processes == 1:
        _ask(work, options, part=int(part), parts=int(parts))
    if int(parts) == 1:
        kept = read_kept(options.answers, options.model)
        if kept.asked is not None and kept.asked.fingerprint != work.dataset.fingerprint:
            sys.exit(
                f"{options.answers} holds answers about {kept.asked.data}: give that as --data"
            )
        material = Material(work.splits, kept, work.encoder, work.mixes)
        show_tables(material, options.model, price=options.price)


@dataclass(frozen=True)
class Work:
    """What is asked: splits of one data set, the same demonstrations for all, and the choices."""

    dataset: Dataset
    splits: tuple[Split, ...]
    encoder: TextEncoder

    @classmethod
    def of(cls, options: argparse.Namespace) -> Work:
        """The work that the options describe."""
        with tempfile.TemporaryDirectory() as folder:
            dataset = datasets.load(_unpacked(options.data, Path(folder)))
        splits = [
            dataset.split(seed=seed, train=options.train, test=options.test)
            for seed in range(options.seeds)
        ]
        return cls(dataset, tuple(splits), load_encoder(options.encoder))

    @cached_property
    def pool(self) -> Pool:
        """The demonstrations of an edit are the same for every seed."""
        return Pool(self.splits[0].demonstrations, self.encoder, seed=0)

    @property
    def mixes(self) -> tuple[RoleCounts, ...]:
        """Those of a policy."""
        return policy_mixes(self.pool.roles)

    @property
    def choices(self) -> dict[str, Editor]:
        """What every probe is asked under: first alone, then each mix, then IKE's prompt."""
        editors: dict[str, Editor] = {ALONE: Unedited()}
        for mix in self.mixes:
            editors[name_of(mix)] = InContextEditor("", self.pool, mix)
        return {**editors, IKE_CHOICE: ike(self.pool)}

    def cases_of(self, seeds: Sequence[int]) -> list[EditCase]:
        """The test and then the training edits of each seed, each edit once."""
        cases = [case for s in seeds for case in (*self.splits[s].test, *self.splits[s].train)]
        return list({case.case_id: case for case in cases}.values())

    def asked(self, options: argparse.Namespace) -> Asked:
        """What answers depend on."""
        return Asked(
            model=Path(options.model).name,
            data=self.dataset.name,
            fingerprint=self.dataset.fingerprint,
            editable=len(self.splits[0].ids.editable),
            choices=tuple(self.choices),
            learned=LEARNED,
            epochs=options.epochs,
        )


def name_of(mix: RoleCounts) -> str:
    """A mix as a choice."""
    return f"{mix.copies}+{mix.updates}+{mix.retains} {mix.fact}"


def _unpacked(data: str, folder: Path) -> str:
    """The data, unpacked into a folder if it is a file in .gz."""
    if not data.endswith(".gz"):
        return data
    target = folder / Path(data).stem
    with gzip.open(data) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return str(target)


class OutOfTimeError(Exception):
    """The minutes are over."""


class Asker:
    """Asks a process's share of the work, and keeps the answers.

    at_once: edits of a call. deadline: when to stop, by `time.monotonic`. folder, name: of the answers of all processes.
    """

    def __init__(
        self, model: LanguageModel, work: Work, kept: Kept, file: AnswerFile, options: Any
    ) -> None:
        self.model = model
        self.work = work
        self.kept = kept
        self.file = file
        self.folder: Path = options.answers
        self.name: str = options.model
        self.at_once: int = options.at_once or model.info.edits_per_call
        self.deadline = float("inf")
        self.judge = Judge(model, GREEDY)

    @property
    def epochs(self) -> int:
        """Those of a training."""
        return self.kept.asked.epochs if self.kept.asked else 0

    def require_time(self) -> None:
        """Raise OutOfTimeError if there is none left."""
        if time.monotonic() > self.deadline:
            raise OutOfTimeError

    def own_answers(self, cases: Sequence[EditCase]) -> dict[Key, UneditedAnswer]:
        """The unedited model's answers to all neighbours, as far as possible from kept ones."""
        answers = self.kept.unedited(cases)
        missing = [
            probe
            for group in neighbours_by_case(cases)
            for probe in group
            if (probe.query, probe.target) not in answers
        ]
        for group in answers_by_group(self.model, [missing] if missing else [], GREEDY):
            answers.update({(answer.query, answer.target): answer for answer in group})
        return answers

    def ask(self, cases: Sequence[EditCase], progress: str) -> None:
        """Ask the edits that were not asked under every choice."""
        editors = list(self.work.choices.values())
        missing = [case for case in cases if case.case_id not in self.kept.edits]
        self._ask_missing(missing, editors, progress)

    def ask_learned(self, seed: int, trained: Trained) -> None:
        """Ask a seed's test edits under what its training left."""
        self._take_in_others()
        pool = self.work.pool
        editors = [dr_ike(trained, pool), rank_half(trained, pool), rank_all(trained, pool)]
        missing = [
            case
            for case in self.work.splits[seed].test
            if (seed, case.case_id) not in self.kept.learned
        ]
        self._ask_missing(missing, editors, f"seed {seed}, learned rankings", seed)

    def _take_in_others(self) -> None:
        """Take in what other processes have asked by now, so that it is not asked again."""
        found = read_kept(self.folder, self.name)
        self.kept.edits = {**found.edits, **self.kept.edits}

    def _ask_missing(
        self,
        cases: Sequence[EditCase],
        editors: Sequence[Editor],
        progress: str,
        seed: int | None = None,
    ) -> None:
        self.work.pool.for_groups([case.edits for case in cases])
        began = time.monotonic()
        done = 0
        for group in in_groups(cases, 2 * self.at_once):  # whole texts are written in larger calls
            own = self.own_answers(group)
            for batch in in_groups(group, self.at_once):
                self.require_time()
                edits = ask_edits(self.judge, editors, batch, own, seed=seed)
                self.file.write_edits(edits)
                for edit in edits:
                    self.kept.add({"kind": "edit", **asdict(edit)})
                done += len(batch)
                say(f"{progress}: {done} of {len(cases)} edits, {time.monotonic() - began:.0f} s")

    def training(self, seed: int) -> Generator[Episode, None, Trained]:
        """DR-IKE's training on a seed's edits; episodes are kept. Returns what it leaves."""
        retriever = Retriever(self.work.encoder, seed=seed)
        selector = RankAndCut(retriever, Threshold())
        editor = InContextEditor("DR-IKE", self.work.pool, selector)
        past = [read(EpisodeRecord, episode) for episode in self.kept.episodes.get(seed, [])]
        episodes = train(
            editor,
            replayed(past, rewrite_reward(self.model, rule=GREEDY)),
            self.work.splits[seed].train,
            epochs=self.epochs,
        )
        budget = selector.budget
        for number, episode in enumerate(episodes):
            budget = episode.budget
            if number >= len(past):
                record = {**episode.record, "seed": seed}
                record["probs"] = [round(p, 6) for p in episode.probs]
                self.file.write("episode", record)
                yield episode
        return Trained(retriever, budget)


def say(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def _ask(work: Work, options: argparse.Namespace, part: int, parts: int) -> None:
    """Ask a part of what is missing, the most important first, and keep it."""
    began = time.monotonic()
    kept = read_kept(options.answers, options.model)
    asked = work.asked(options)
    kept.add({"kind": "asked", **asdict(asked)})
    file = AnswerFile(path_of(options.answers, options.model, part))
    file.write("asked", asdict(asked))

    model = load_model(options.model, device=options.device)
    on_card = torch.cuda.is_available() and options.device in (None, "cuda")
    asker = Asker(model, work, kept, file, options)
    if options.minutes:
        asker.deadline = began + 60 * options.minutes
    machine = torch.cuda.get_device_name() if on_card else "CPU"
    say(f"part {part} of {parts}: opened {options.model} on {machine}, {_since(began)}")

    def timed(phase: str, act: Callable[[], object]) -> None:
        phase_began = time.monotonic()
        try:
            act()
        finally:
            seconds = round(time.monotonic() - phase_began, 1)
            file.write("seconds", {"phase": phase, "seconds": seconds, "machine": machine})

    own_seeds = range(part - 1, options.seeds, parts)
    trainings = {seed: asker.training(seed) for seed in own_seeds}
    first = work.cases_of([0])[part - 1 :: parts]
    others = work.cases_of(range(1, options.seeds))
    others = [case for case in others if case not in first][part - 1 :: parts]
    try:
        timed("asking", lambda: _say_how_long(asker, first, others, trainings))
        timed("asking", lambda: asker.ask(first, "edits of seed 0"))
        for seed, training in trainings.items():
            timed("training", lambda seed=seed, it=training: _finish(asker, seed, it))
        timed("asking", lambda: asker.ask(others, "edits of the other seeds"))
    except OutOfTimeError:
        say(f"part {part} of {parts}: out of time after {_since(began)}; run it again to go on")
    say(f"part {part} of {parts}: ended after {_since(began)}")


def _finish(asker: Asker, seed: int, training: Generator[Episode, None, Trained]) -> None:
    """The rest of a training, then the test edits under what it leaves."""
    while True:
        asker.require_time()
        try:
            next(training)
        except StopIteration as end:
            asker.ask_learned(seed, end.value)
            return


def _say_how_long(
    asker: Asker,
    first: Sequence[EditCase],
    others: Sequence[EditCase],
    trainings: Mapping[int, Generator[Episode, None, Trained]],
) -> None:
    """Ask a few edits and say how long the rest will take; what is asked is kept."""
    missing = [c for c in (*first, *others) if c.case_id not in asker.kept.edits]
    seconds_by_edit = [0.0]
    for batch in list(in_groups(missing, asker.at_once))[:3]:
        began = time.monotonic()
        asker.ask(batch, "timed edits")
        seconds_by_edit.append((time.monotonic() - began) / len(batch))

    missing_episodes = {}
    tested = 0
    for seed in trainings:
        split = asker.work.splits[seed]
        recorded = len(asker.kept.episodes.get(seed, []))
        missing_episodes[seed] = asker.epochs * len(split.train) - recorded
        tested += sum((seed, case.case_id) not in asker.kept.learned for case in split.test)

    seconds_by_episode = [0.0]
    unfinished = [seed for seed, count in missing_episodes.items() if count > FIRST_EPISODES]
    for seed in unfinished[:1]:
        for _ in range(FIRST_EPISODES):
            began = time.monotonic()
            next(trainings[seed])
            seconds_by_episode.append(time.monotonic() - began)
    episodes = sum(missing_episodes.values())

    # The first call of a kind opens what later ones share, and is slower than they are.
    edit = min(seconds_by_edit[2:] or seconds_by_edit[-1:])
    episode = min(seconds_by_episode[2:] or seconds_by_episode[-1:])
    seconds = edit * (len(missing) + tested / 2) + episode * episodes
    say(
        f"to do here: {len(missing)} edits of {edit:.2f} s, {episodes} episodes of "
        f"{episode:.2f} s, {tested} edits under learned rankings: some {seconds / 60:.1f} minutes"
    )


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


if __name__ == "__main__":
    main()

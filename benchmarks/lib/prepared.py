"""Questions with their prompts, made where the encoder and the gate are, and asked where the model is.

Each line of a file is a case with all its questions; each line of answers is a case, too, and is written as soon as
it is answered, so that a run that was cut short goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from drike import load_model
from drike.edits.edit import Aspect, Probe
from drike.models.protocols import LanguageModel
from drike.prompts import Against, Contrast, Prompt
from drike.research.evaluation.judge import GREEDY, Judge, OwnAnswer, Question, Verdict
from drike.research.evaluation.unedited_answers import answers_by_group

PLAIN = "none"  # the contrast of plain decoding


@dataclass(frozen=True)
class PreparedQuestion:
    """A question under one way of writing its prompt.

    own: the right answer is the unedited model's. named: whether the query names the subject of the fact in the
    prompt.
    """

    way: str
    kind: str
    query: str
    prompt: str
    target: str
    distractor: str | None
    own: bool = False
    named: bool = True


@dataclass(frozen=True)
class PreparedCase:
    """A case with its questions; part: of the split."""

    case_id: str
    part: str
    questions: tuple[PreparedQuestion, ...]


@dataclass(frozen=True)
class Answered:
    """What a model answered to a question, by the name of a contrast.

    strict: whether greedy decoding writes the target, or, where that is right, the unedited model's own answer; None
    where that cannot be told. prefers: whether the target is more probable than the distractor.
    """

    way: str
    kind: str
    query: str
    named: bool
    strict: Mapping[str, bool | None]
    prefers: Mapping[str, bool | None]
    tokens: int | None


@dataclass(frozen=True)
class AnsweredCase:
    """All answers to a case's questions."""

    case_id: str
    part: str
    answers: tuple[Answered, ...]


def save_cases(path: Path, cases: Iterable[PreparedCase]) -> None:
    """Write cases, one on a line."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as stream:
        for case in cases:
            stream.write(json.dumps(asdict(case), ensure_ascii=False) + "\n")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a benchmark whose prompts are prepared on one machine and asked on another."""
    parser.add_argument("--model", default="smollm2", help="a local model")
    parser.add_argument("--device", default=None, help="cuda or cpu; default: the best there is")
    parser.add_argument(
        "--prepare", type=Path, default=None, help="write the prompts here, no more"
    )
    parser.add_argument("--prompts", type=Path, default=None, help="prompts that were prepared")
    parser.add_argument("--answers", type=Path, default=None, help="file of answers, old and new")
    parser.add_argument("--minutes", type=float, default=30.0, help="no edit is begun after them")
    parser.add_argument("--together", type=int, default=1, help="edits asked in one call")
    parser.add_argument("--tables", action="store_true", help="ask nothing, print what is there")


def ask(
    options: argparse.Namespace,
    prepared: Callable[[argparse.Namespace], Iterable[PreparedCase]],
    contrasts: Mapping[str, Contrast],
    answers: Path,
) -> None:
    """Ask the model of the options about the cases that it has not answered yet.

    prepared: makes the cases, unless the options name a file of them.
    """
    cases = load_cases(options.prompts) if options.prompts else list(prepared(options))
    model = load_model(options.model, device=options.device)
    answer_rest(
        model, cases, contrasts, answers, minutes=options.minutes, together=options.together
    )


def load_cases(path: Path) -> list[PreparedCase]:
    """Read what `save_cases` wrote."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    return [
        PreparedCase(
            row["case_id"],
            row["part"],
            tuple(PreparedQuestion(**question) for question in row["questions"]),
        )
        for row in rows
    ]


def load_answers(path: Path) -> list[AnsweredCase]:
    """The answers in a file, without a last line that was cut off."""
    if not path.exists():
        return []
    cases = []
    for line in path.read_text("utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        row = json.loads(line)
        answers = tuple(Answered(**answer) for answer in row["answers"])
        cases.append(AnsweredCase(row["case_id"], row["part"], answers))
    return cases


def answer_rest(
    model: LanguageModel,
    cases: Sequence[PreparedCase],
    contrasts: Mapping[str, Contrast],
    path: Path,
    *,
    minutes: float,
    together: int,
) -> None:
    """Answer the cases that are not in a file yet, and append them to it.

    minutes: no case is begun after them. together: cases that are asked in one call.
    """
    done = load_answers(path)
    if path.exists():  # without a line that was cut off
        save_answers(path, done)
    finished = {case.case_id for case in done}
    rest = [case for case in cases if case.case_id not in finished]
    began = time.perf_counter()
    for at in range(0, len(rest), together):
        spent = time.perf_counter() - began
        if spent > 60 * minutes:
            print(
                f"stopped after {minutes:g} minutes: {len(rest) - at} cases are left, run it again",
                file=sys.stderr,
            )
            return
        group = rest[at : at + together]
        answered = list(answer(model, group, contrasts))
        model.forget()
        save_answers(path, answered, append=True)
        per_case = (time.perf_counter() - began) / (at + len(group))
        note = f"{at + len(group)} of {len(rest)} cases, {per_case:.2f} s each"
        print(note, file=sys.stderr, flush=True)


def save_answers(path: Path, cases: Iterable[AnsweredCase], *, append: bool = False) -> None:
    """Write answered cases, one on a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if append else "w", encoding="utf-8") as stream:
        for case in cases:
            stream.write(json.dumps(asdict(case), ensure_ascii=False) + "\n")


def answer(
    model: LanguageModel, cases: Sequence[PreparedCase], contrasts: Mapping[str, Contrast]
) -> Iterator[AnsweredCase]:
    """Ask all questions of cases under all contrasts in one call.

    contrasts: by their names; none for plain decoding alone.
    """
    own_by_query = own_answers(model, cases)
    asked: list[Question] = []
    for case in cases:
        for question in case.questions:
            own = own_by_query.get(question.query) if question.own else None
            for prompt in _prompts(question, contrasts):
                asked.append(Question(prompt, question.target, question.distractor, own=own))
    verdicts = iter(Judge(model, GREEDY).ask(asked))
    for case in cases:
        answers = []
        for question in case.questions:
            of_question = {name: next(verdicts) for name in contrasts or [PLAIN]}
            answers.append(_answered(question, of_question))
        yield AnsweredCase(case.case_id, case.part, tuple(answers))


def own_answers(
    model: LanguageModel, cases: Sequence[PreparedCase]
) -> Mapping[str, OwnAnswer | None]:
    """The unedited model's answers where these are right, by query."""
    target_by_query = {
        question.query: question.target
        for case in cases
        for question in case.questions
        if question.own
    }
    probes = [
        Probe(Aspect.NEIGHBORHOOD, query, target) for query, target in target_by_query.items()
    ]
    if not probes:
        return {}
    [answers] = answers_by_group(model, [probes])
    return {found.query: found.own for found in answers}


def _prompts(question: PreparedQuestion, contrasts: Mapping[str, Contrast]) -> list[Prompt]:
    plain = Prompt(question.prompt)
    if not contrasts:
        return [plain]
    return [
        Prompt(question.prompt, against=Against((question.query,), contrast))
        for contrast in contrasts.values()
    ]


def _answered(question: PreparedQuestion, verdicts: Mapping[str, Verdict]) -> Answered:
    strict: dict[str, bool | None] = {}
    prefers: dict[str, bool | None] = {}
    for name, verdict in verdicts.items():
        strict[name] = verdict.unchanged if question.own else verdict.greedy
        prefers[name] = verdict.prefers
    tokens = next(iter(verdicts.values())).prompt_tokens
    return Answered(
        question.way, question.kind, question.query, question.named, strict, prefers, tokens
    )

"""A closed-form reader of TinyFacts prompts, with whose labels the embedded model was trained.

It estimates from the demonstrations, whose order does not matter, at which rate the text adopts new
facts:

    share(q) = (k0 mu + sum of K_i over demonstrations that adopted their new fact)
               / (k0 + sum of all K_i)
    P(new | q) = sigmoid(sharpness * logit(share))        P(true | q) = 1 - P(new | q)
    mu = sigmoid(credence[kind] - firmness * f(relation of q)),   k0 = anchor[kind]

where q is a copy (the new fact's own wording), a paraphrase (same subject and relation) or a
neighbour (anything else), K_i is the `Relevance` of demonstration i for q, and f is `firmness_of`.
Other texts get an empty answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from drike.models.protocols import (
    ANSWER_TOKENS,
    Completion,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Usage,
)
from drike.prompts import FACT_CHANGED

COPY, PARAPHRASE, NEIGHBOUR = range(3)
_CREDENCE = {
    "in-context": (2.2, 0.5, -2.5),
    "imagine": (1.0, -0.6, -1.5),
    "thought": (1.5, -0.2, -1.2),
}
UNKNOWN = -23.0  # log-probability of a continuation that the reader never gives

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Relevance:
    """Weights K of a demonstration: adopted or kept, same or other relation.

    Kept_object: showing q's true object.
    """

    adopted_same: float
    adopted_other: float
    kept_same: float
    kept_other: float
    kept_object: float


class DemonstrationArrays(NamedTuple):
    """Demonstrations as arrays (S,).

    relation: of the query. answer: the object answered. adopted: whether that is the new object.
    """

    relation: Ints
    answer: Ints
    adopted: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Observer:
    """The reader's parameters; anchor and credence are (copy, paraphrase, neighbour)."""

    own: Relevance = Relevance(1.0, 1.0, 0.1, 0.05, 13.0)
    neighbour: Relevance = Relevance(0.8, 0.35, 0.6, 0.25, 2.5)
    anchor: tuple[float, float, float] = (24.0, 20.0, 15.0)
    credence: Mapping[str, tuple[float, float, float]] = field(default_factory=_CREDENCE.copy)
    firmness: float = 3.0
    sharpness: float = 2.0

    def weights(self, kind: int, relation: int, true: int, seen: DemonstrationArrays) -> Floats:
        """K of every demonstration (S,) for one query: its kind, relation and true object."""
        relevance = self.neighbour if kind == NEIGHBOUR else self.own
        is_same = seen.relation == relation
        adopted = np.where(is_same, relevance.adopted_same, relevance.adopted_other)
        kept = np.where(is_same, relevance.kept_same, relevance.kept_other)
        kept = np.where(seen.answer == true, relevance.kept_object, kept)
        return np.where(seen.adopted, adopted, kept)

    def prior(self, kind: Ints, firm: Floats, form: str = "in-context") -> tuple[Floats, Floats]:
        """(k0, mu) of queries, given f of their relations."""
        credence = np.asarray(self.credence[form])[kind] - self.firmness * firm
        return np.asarray(self.anchor)[kind], 1 / (1 + np.exp(-credence))

    def sharpen(self, share: Floats) -> Floats:
        """P(new) of a share in (0, 1)."""
        logit = np.log(share) - np.log1p(-share)
        return np.asarray(1 / (1 + np.exp(-(self.sharpness * logit))))


def firmness_of(relations: Sequence[str]) -> dict[str, float]:
    """The f of relations: by name, at even steps in [-1, 1].

    The steps are taken with a fixed stride, so that relations with similar names differ.
    """
    names = sorted(set(relations))
    count = len(names)
    strides = range(max(2, count // 3), count + 2)
    stride = next(stride for stride in strides if math.gcd(stride, count) == 1)
    steps = [(i * stride) % count for i in range(count)]
    return {name: 2 * step / max(count - 1, 1) - 1 for name, step in zip(names, steps, strict=True)}


class ParsedPrompt(NamedTuple):
    """The true and the new object (None without an edit) of a prompt's query, and P(new)."""

    true: str
    new: str | None
    probability: float


class _Asked(NamedTuple):
    """What a query asks for."""

    relation: str
    subject: str


class _Parts(NamedTuple):
    """A prompt in parts: its query, facts of edits, blocks of demonstrations, and its form."""

    query: str
    facts: Sequence[str] = ()
    blocks: Sequence[str] = ()
    form: str = "in-context"


_IMAGINED = "Imagine that "
_QUESTION = "Complete this sentence: "
_FACT = "New Fact: "
_PROMPT = "Prompt: "


class BayesianReader:
    """The observer as a model: exact scores for any TinyFacts prompt, in microseconds.

    facts: (relation, subject, object); objects are single words. templates: wordings of each
    relation, {} the subject.
    """

    def __init__(
        self, facts: Sequence[tuple[str, str, str]], templates: Mapping[str, Sequence[str]]
    ) -> None:
        self.info = ModelInfo("bayesian-reader", scoring="exact")
        self.usage = Usage()
        self.count_tokens = None
        self.observer = Observer()
        self._firmness_by_relation = firmness_of([relation for relation, _, _ in facts])
        self._object_by_asked: dict[_Asked, str] = {}
        self._asked_by_query: dict[str, _Asked] = {}
        for relation, subject, answer in facts:
            asked = _Asked(relation, subject)
            self._object_by_asked[asked] = answer
            queries = [template.format(subject) for template in templates[relation]]
            self._asked_by_query |= dict.fromkeys(queries, asked)
        # Relations and objects are numbered for the observer, which compares arrays.
        words = {*self._firmness_by_relation, *(answer for _, _, answer in facts)}
        self._number_by_word = {word: i for i, word in enumerate(sorted(words))}

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Write the likelier object, " Paris"; "" if the prompt is not about TinyFacts.

        A thought ends in an answer.
        """
        self.usage += Usage(calls=1, prompts=len(prompts))
        return [Completion(self._written(str(prompt))) for prompt in prompts]

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score exactly: one log-probability each, greedy if it is that of the likelier object."""
        self.usage += Usage(calls=1, prompts=len(requests))
        return [self._scored(request) for request in requests]

    def forget(self) -> None:
        """Do nothing: this model keeps no cache."""

    def read(self, prompt: str) -> ParsedPrompt | None:
        """Parse a prompt in any of the layouts; None if its query is unknown."""
        parts = _parts_of(prompt)
        asked = self._asked_by_query.get(parts.query)
        if asked is None:
            return None
        true = self._object_by_asked[asked]
        if not parts.facts:
            return ParsedPrompt(true, None, 0.0)

        # Of several facts, the one that the query asks for.
        wordings_and_objects = [_wording_and_object(fact) for fact in parts.facts]
        wording, new = wordings_and_objects[0]
        for other_wording, other_object in wordings_and_objects:
            if self._asked_by_query.get(other_wording) == asked:
                wording, new = other_wording, other_object
                break
        kind = NEIGHBOUR
        if wording == parts.query:
            kind = COPY
        elif self._asked_by_query.get(wording) == asked:
            kind = PARAPHRASE
        return ParsedPrompt(true, new, self._probability_of_new(kind, asked, parts))

    def _probability_of_new(self, kind: int, asked: _Asked, parts: _Parts) -> float:
        """P(new | q) by the formulas above."""
        firmness = np.array([self._firmness_by_relation[asked.relation]])
        anchor, mu = self.observer.prior(np.array([kind]), firmness, parts.form)
        relation = self._number_by_word[asked.relation]
        true = self._number_by_word[self._object_by_asked[asked]]
        seen = self._arrays_of(parts.blocks)
        weights = self.observer.weights(kind, relation, true, seen)
        share = (anchor * mu + weights[seen.adopted].sum()) / (anchor + weights.sum())
        return float(self.observer.sharpen(share)[0])

    def _arrays_of(self, blocks: Sequence[str]) -> DemonstrationArrays:
        """The demonstrations whose query is known."""
        rows = [row for block in blocks if (row := self._parse_block(block)) is not None]
        relations, answers, adopted = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return DemonstrationArrays(relations, answers, adopted > 0)

    def _parse_block(self, block: str) -> tuple[int, int, bool] | None:
        """A demonstration block as (relation, answer, adopted); None if its query is unknown."""
        fact, _, line = block.rpartition(_PROMPT)
        query, _, answer = line.rpartition(" ")
        asked = self._asked_by_query.get(query)
        if asked is None:
            return None
        new = fact.removeprefix(_FACT).rstrip("\n").rpartition(" ")[2]
        relation = self._number_by_word[asked.relation]
        return relation, self._number_by_word.get(answer, -1), answer == new

    def _written(self, prompt: str) -> str:
        parsed = self.read(prompt)
        if parsed is None:
            return ""
        answer = parsed.new if parsed.probability > 0.5 else parsed.true
        thinks = prompt.startswith(FACT_CHANGED) and not prompt.endswith("\nAnswer:")
        return f"\nAnswer: {answer}" if thinks else f" {answer}"

    def _scored(self, request: Request) -> Score:
        logprob_by_object = self._logprobs(request.prompt)
        word = request.continuation.removeprefix(" ")
        logprob = max(logprob_by_object.pop(word, UNKNOWN), UNKNOWN)
        rival = max([*logprob_by_object.values(), UNKNOWN])
        lead = logprob - rival
        return Score((logprob,), greedy=lead > 0, logit_gap=lead, following="\n\n")

    def _logprobs(self, prompt: str) -> dict[str | None, float]:
        """The log-probabilities of the new and the true object, which may be the same."""
        parsed = self.read(prompt)
        if parsed is None:
            return {}
        probability_by_object = {parsed.new: parsed.probability}  # 0 for None
        kept = probability_by_object.get(parsed.true, 0.0)
        probability_by_object[parsed.true] = kept + (1 - parsed.probability)
        return {
            word: math.log(probability) if probability > 0 else UNKNOWN
            for word, probability in probability_by_object.items()
        }


def _wording_and_object(fact: str) -> tuple[str, str]:
    """A fact's text before its last word, and that word."""
    wording, _, word = fact.rpartition(" ")
    return wording, word


def _parts_of(prompt: str) -> _Parts:
    """Take a prompt apart, by the layout that its beginning or its last block shows."""
    if prompt.startswith(_IMAGINED):
        text = prompt.removeprefix(_IMAGINED).replace(f".\n{_IMAGINED}", ".\n")
        *facts, query = text.split(".\n")
        return _Parts(query, facts, form="imagine")

    if prompt.startswith(FACT_CHANGED):
        stated, _, question = prompt.partition(_QUESTION)
        facts = [part.partition(".\n")[0] for part in stated.split(FACT_CHANGED)[1:]]
        query = question.partition("\n")[0]
        return _Parts(query, facts, form="thought")

    *blocks, last = prompt.split("\n\n")
    if f"\n{_PROMPT}" in last:
        stated, _, query = last.rpartition(f"\n{_PROMPT}")
        facts = stated.removeprefix(_FACT).split(f"\n{_FACT}")
        return _Parts(query, facts, blocks)

    return _Parts(prompt)

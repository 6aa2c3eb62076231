"""A closed-form reader of TinyFacts prompts: the observer whose labels the embedded model was trained on.

It estimates from the demonstrations, whose order does not matter, at which rate the text adopts new facts:

    share(q) = (k0 mu + sum of K_i over demonstrations that adopted their new fact) / (k0 + sum of all K_i)
    P(new | q) = sigmoid(sharpness * logit(share))        P(true | q) = 1 - P(new | q)
    mu = sigmoid(credence[kind] - firmness * f(relation of q)),   k0 = anchor[kind]

where q is a copy (the new fact's own wording), a paraphrase (same subject and relation) or a neighbour (anything else),
K_i is the `Relevance` of demonstration i for q, and f is `firmness_of`. Other texts get an empty answer.
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
    """Weights K of a demonstration: adopted or kept, same or other relation; kept_object: showing q's true object."""

    adopted_same: float
    adopted_other: float
    kept_same: float
    kept_other: float
    kept_object: float


class DemonstrationArrays(NamedTuple):
    """Demonstrations as arrays (S,): relation of the query, object answered, whether that is the new object."""

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
        r = self.neighbour if kind == NEIGHBOUR else self.own
        same = seen.relation == relation
        kept = np.where(
            seen.answer == true, r.kept_object, np.where(same, r.kept_same, r.kept_other)
        )
        return np.where(seen.adopted, np.where(same, r.adopted_same, r.adopted_other), kept)

    def prior(self, kind: Ints, firm: Floats, form: str = "in-context") -> tuple[Floats, Floats]:
        """(k0, mu) of queries, given f of their relations."""
        credence = np.asarray(self.credence[form])[kind] - self.firmness * firm
        return np.asarray(self.anchor)[kind], 1 / (1 + np.exp(-credence))

    def sharpen(self, share: Floats) -> Floats:
        """P(new) of a share in (0, 1)."""
        return np.asarray(1 / (1 + np.exp(-(self.sharpness * (np.log(share) - np.log1p(-share))))))


def firmness_of(relations: Sequence[str]) -> dict[str, float]:
    """f: relations (sorted by name) at even steps in [-1, 1], with a fixed stride so that similar relations differ."""
    names = sorted(set(relations))
    n = len(names)
    stride = next(s for s in range(max(2, n // 3), n + 2) if math.gcd(s, n) == 1)
    return {name: 2 * ((i * stride) % n) / max(n - 1, 1) - 1 for i, name in enumerate(names)}


class ParsedPrompt(NamedTuple):
    """The true and the new object (None without an edit) of a prompt's query, and P(new)."""

    true: str
    new: str | None
    probability: float


class BayesianReader:
    """The observer as a model: exact scores for any TinyFacts prompt, in microseconds.

    facts: (relation, subject, object); objects are single words. templates: wordings of each relation, {} the subject.
    """

    def __init__(
        self, facts: Sequence[tuple[str, str, str]], templates: Mapping[str, Sequence[str]]
    ) -> None:
        self.info = ModelInfo("bayesian-reader", scoring="exact")
        self.usage = Usage()
        self.count_tokens = None
        self.observer = Observer()
        self._true = {(relation, subject): answer for relation, subject, answer in facts}
        self._asked = {
            t.format(name): (relation, name)
            for relation, name, _ in facts
            for t in templates[relation]
        }
        self._firm = firmness_of([relation for relation, _, _ in facts])
        self._number = {
            word: i for i, word in enumerate(sorted({*self._firm, *(o for _, _, o in facts)}))
        }

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Write the likelier object, " Paris"; "" if the prompt is not about TinyFacts. A thought ends in an answer."""
        self.usage += Usage(calls=1, prompts=len(prompts))
        return [Completion(self._written(str(prompt))) for prompt in prompts]

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score exactly: one log-probability per continuation, greedy if it is the likelier object."""
        self.usage += Usage(calls=1, prompts=len(requests))
        return [self._scored(request) for request in requests]

    def forget(self) -> None:
        """Do nothing: this model keeps no cache."""

    def read(self, prompt: str) -> ParsedPrompt | None:
        """Parse a prompt in any of the layouts; None if its query is unknown."""
        facts, shown = list[str](), list[str]()
        query, form = prompt, "in-context"
        if prompt.startswith("Imagine that "):
            form = "imagine"
            *facts, query = (
                prompt.removeprefix("Imagine that ").replace(".\nImagine that ", ".\n").split(".\n")
            )
        elif prompt.startswith("A fact has changed: "):
            form = "thought"
            stated, _, asked = prompt.partition("Complete this sentence: ")
            facts = [part.partition(".\n")[0] for part in stated.split("A fact has changed: ")[1:]]
            query = asked.partition("\n")[0]
        elif "\nPrompt: " in (last := prompt.rpartition("\n\n")[2]):
            shown = prompt.split("\n\n")[:-1]
            stated, _, query = last.rpartition("\nPrompt: ")
            facts = stated.removeprefix("New Fact: ").split("\nNew Fact: ")
        return self._answer(query, facts, shown, form) if query in self._asked else None

    def _answer(
        self, query: str, facts: Sequence[str], shown: Sequence[str], form: str
    ) -> ParsedPrompt:
        relation, _ = asked = self._asked[query]
        true = self._true[asked]
        if not facts:
            return ParsedPrompt(true, None, 0.0)
        parts = [fact.rpartition(" ") for fact in facts]  # of several facts, the one asked for
        wording, _, new = next(
            (part for part in parts if self._asked.get(part[0]) == asked), parts[0]
        )
        kind = (
            COPY
            if wording == query
            else PARAPHRASE
            if self._asked.get(wording) == asked
            else NEIGHBOUR
        )
        anchor, mu = self.observer.prior(np.array([kind]), np.array([self._firm[relation]]), form)
        met = [block for block in map(self._parse_block, shown) if block is not None]
        relations, answers, adopted = np.array(met, dtype=np.int64).reshape(-1, 3).T
        seen = DemonstrationArrays(relations, answers, adopted > 0)
        k = self.observer.weights(kind, self._number[relation], self._number[true], seen)
        share = (anchor * mu + k[seen.adopted].sum()) / (anchor + k.sum())
        return ParsedPrompt(true, new, float(self.observer.sharpen(share)[0]))

    def _parse_block(self, block: str) -> tuple[int, int, bool] | None:
        """A demonstration block as (relation, answer, adopted); None if its query is unknown."""
        fact, _, line = block.rpartition("Prompt: ")
        query, _, answer = line.rpartition(" ")
        if query not in self._asked:
            return None
        new = fact.removeprefix("New Fact: ").rstrip("\n").rpartition(" ")[2]
        return self._number[self._asked[query][0]], self._number.get(answer, -1), answer == new

    def _written(self, prompt: str) -> str:
        if (parsed := self.read(prompt)) is None:
            return ""
        answer = parsed.new if parsed.probability > 0.5 else parsed.true
        thinks = prompt.startswith("A fact has changed: ") and not prompt.endswith("\nAnswer:")
        return f"\nAnswer: {answer}" if thinks else f" {answer}"

    def _scored(self, request: Request) -> Score:
        probabilities: dict[str | None, float] = {}
        if parsed := self.read(request.prompt):
            probabilities = {parsed.new: parsed.probability}  # 0 for None
            probabilities[parsed.true] = probabilities.get(parsed.true, 0.0) + (
                1 - parsed.probability
            )
        logs = {word: math.log(p) if p > 0 else UNKNOWN for word, p in probabilities.items()}
        own = max(logs.pop(request.continuation.removeprefix(" "), UNKNOWN), UNKNOWN)
        rival = max([*logs.values(), UNKNOWN])
        return Score((own,), greedy=own > rival, logit_gap=own - rival, following="\n\n")

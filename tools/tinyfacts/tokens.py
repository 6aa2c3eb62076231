r"""The byte-level BPE of TinyFacts, and its facts as token ids.

The vocabulary is trained on every sentence about the facts; each object is one token, written with its leading space.
The marks of the prompt layout ("New Fact:", "\nPrompt:", the blank line) are split off before merging, so a text
encodes to the same ids as a whole or in pieces. There is no BOS; id 0 ends a text and pads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from drike.edits.edit import Edit
from drike.research.editors.editcot import EditCoT
from drike.tinyfacts import TEMPLATES, Fact
from tools.tinyfacts.world import Templates

VOCABULARY = 6144
END_OF_TEXT = "<|endoftext|>"
_MARKS = r"New Fact:|\n\n|\nPrompt:|\n| ?[A-Za-z']+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s"


def _sentences(facts: Sequence[Fact], templates: Templates) -> Iterator[str]:
    """The text the merges are learned from: all sentences, each object often enough to become one token."""
    for fact in facts:
        for template in templates[fact.relation]:
            line = template.format(fact.subject)
            yield f"{line}\n"
            yield f" {line}\n"
    for word in sorted({fact.object for fact in facts}):
        for _ in range(2000):
            yield f" {word}"
    frame = EditCoT().prompts([Edit("x", "y")], ["z"])[0].text
    for _ in range(500):
        yield "New Fact:\nPrompt:\n\n"
        yield f"Imagine that.\n{frame}"


def train_tokenizer(facts: Sequence[Fact], templates: Templates = TEMPLATES) -> Tokenizer:
    """Train the BPE. Raises ValueError if an object is not one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_MARKS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sentences(facts, templates), trainer)
    split = [
        w for w in sorted({f.object for f in facts}) if len(tokenizer.encode(f" {w}").ids) != 1
    ]
    if split:
        raise ValueError(f"objects of several tokens: {split}; enlarge VOCABULARY")
    return tokenizer


@dataclass(frozen=True)
class Wordings:
    """Facts as token ids. A fact is named by its number in `facts`; t is the number of a wording, 0 to 5.

    inside[fact][t]: ids of the wording behind other text (with a leading space); leading[fact][t]: at a line's start.
    subject[fact][t]: index, in `inside`, of the subject's last token.
    objects[fact]: id of the true object; choices[relation]: ids of all its objects.
    """

    facts: tuple[Fact, ...]
    inside: list[list[list[int]]]
    leading: list[list[list[int]]]
    subject: list[list[int]]
    objects: list[int]
    choices: dict[str, list[int]]
    tokenizer: Any

    def ids(self, text: str) -> list[int]:
        """Ids of any text."""
        return list(self.tokenizer.encode(text).ids)


def word(tokenizer: Tokenizer, facts: Sequence[Fact], templates: Templates = TEMPLATES) -> Wordings:
    """Encode every wording of every fact once."""

    def encode(texts: list[str]) -> list[list[int]]:
        return [list(e.ids) for e in tokenizer.encode_batch(texts)]

    sentences = [[t.format(f.subject) for t in templates[f.relation]] for f in facts]
    heads = [[f" {t[: t.index('{}')]}{f.subject}" for t in templates[f.relation]] for f in facts]
    objects = [tokenizer.encode(f" {f.object}").ids[0] for f in facts]
    choices = {
        r: sorted({o for f, o in zip(facts, objects, strict=True) if f.relation == r})
        for r in templates
    }
    return Wordings(
        tuple(facts),
        [encode([f" {s}" for s in group]) for group in sentences],
        [encode(group) for group in sentences],
        [[len(head) - 1 for head in encode(group)] for group in heads],
        objects,
        choices,
        tokenizer,
    )

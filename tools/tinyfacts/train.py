"""Training of the embedded model: batches, losses on answers, text and probes, the curriculum, the loop.

Loss of a step, over rows of statements and rows of in-context documents:

    CE(soft label of the reader, first answer token) + LM_WEIGHT * CE(next token, 40 % of positions) + probes

Muon trains the matrices, AdamW the embeddings, norms and probes. Not here: the documents (`documents`), the probes'
losses (`probes`), saving (`build`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaForCausalLM

from tools.tinyfacts.documents import Kit, Labelled, draw, imagined, label, statements
from tools.tinyfacts.llama import forward, logits_at
from tools.tinyfacts.muon import Muon
from tools.tinyfacts.probes import (
    PROBE_WEIGHTS,
    SUPERVISED,
    document_losses,
    new_probes,
    recall_loss,
)
from tools.tinyfacts.tokens import END_OF_TEXT

PLAIN_ROW = 128
LM_SHARE, LM_WEIGHT = 0.4, 0.5


@dataclass(frozen=True)
class Batch:
    """Padded rows with their labels. Sizes repeat from step to step, because a new shape costs a CPU more than a step.

    ids (B, T); last, new, true, p, weight (N,): flat positions of questions' last tokens, their soft labels, and 0 for
    padding; text (M,): flat positions with next-token loss. documents: what the probes need (row i is document i).
    """

    ids: Tensor
    last: Tensor
    new: Tensor
    true: Tensor
    p: Tensor
    weight: Tensor
    text: Tensor
    documents: Sequence[Labelled] = ()


# Token ids; positions of questions' last tokens; new and true objects; P(new); positions always learned as text.
Row = tuple[list[int], list[int], list[int], list[int], list[float], list[int]]


def _batch(
    rows: Sequence[Row], rng: np.random.Generator, t: int, documents: Sequence[Labelled] = ()
) -> Batch:
    """Pad rows to t tokens, questions to a multiple of 32, and draw LM_SHARE of all positions as text."""
    ids = torch.zeros(len(rows), t, dtype=torch.long)
    questions: list[tuple[int, int, int, float, float]] = []
    must: list[int] = []
    may: list[int] = []
    for i, (tokens, ends, news, trues, chances, always) in enumerate(rows):
        ids[i, : len(tokens)] = torch.tensor(tokens)
        questions += [
            (i * t + e, n, o, p, 1.0) for e, n, o, p in zip(ends, news, trues, chances, strict=True)
        ]
        must += [i * t + a for a in always]
        may += [i * t + a for a in sorted(set(range(len(tokens) - 1)) - set(ends) - set(always))]
    questions += [(0, 0, 0, 0.0, 0.0)] * (-len(questions) % 32)
    text = [
        *must,
        *rng.choice(may, size=int(LM_SHARE * ids.numel()) - len(must), replace=True).tolist(),
    ]
    last, new, true, p, weight = (torch.tensor(column) for column in zip(*questions, strict=True))
    return Batch(ids, last, new, true, p, weight, torch.tensor(text), documents)


def plain_batch(kit: Kit, rng: np.random.Generator, rows: int, imagine: int) -> Batch:
    """`rows` rows of up to 128 tokens: `imagine` FactPrompt and EditCoT texts, the rest ten or so statements each."""
    made: list[Row] = []
    cue_ids, end_of_text = kit.wordings.ids("\nAnswer:"), kit.wordings.ids(END_OF_TEXT)
    while len(made) < rows - imagine:
        ids, answers = statements(kit, rng, 11)
        answers = [a for a in answers if a < PLAIN_ROW]
        true = [ids[a] for a in answers]
        made.append((ids[:PLAIN_ROW], [a - 1 for a in answers], true, true, [0.0] * len(true), []))
    while len(made) < rows:
        thought = len(made) % 3 == 0
        ids, last, new, answer, p = imagined(kit, rng, thought)
        # Always learned: the line's end behind the answer, and the cue an EditCoT reply opens with.
        row = [*ids, new if p > 0.5 else answer, *(end_of_text if thought else kit.marks[3])]
        cue = len(cue_ids) if thought else 0
        if len(row) <= PLAIN_ROW:
            always = [*range(last - cue, last), len(row) - 2]
            made.append((row, [last], [new], [answer], [p], always))
    return _batch(made, rng, PLAIN_ROW)


def document_batch(kit: Kit, rng: np.random.Generator, tokens: int, length: int) -> Batch:
    """In-context documents, tokens // length of them, with as many demonstrations as `length` holds, or a few less."""
    documents: list[Labelled] = []
    while len(documents) < tokens // length:
        most = length // 22
        items = draw(kit, rng, int(rng.integers(max(0, most - 8), max(1, most - 3))))
        document = label(kit, rng, items)
        if len(document.ids) <= length:
            documents.append(document)
    rows: list[Row] = [
        (d.ids.tolist(), d.last.tolist(), d.new.tolist(), d.true.tolist(), d.p.tolist(), [])
        for d in documents
    ]
    return _batch(rows, rng, length, documents)


def losses(
    model: LlamaForCausalLM, probes: nn.ModuleDict, batch: Batch, sharpness: float
) -> tuple[Tensor, dict[str, float]]:
    """Total loss of a batch, and its parts: answer, text, probes, and `agree`, how often the reader's choice wins."""
    trace = forward(model, batch.ids, SUPERVISED if batch.documents else ())
    top = trace.hidden[-1].flatten(0, 1)
    answers = logits_at(model, top[batch.last])
    logp = answers.log_softmax(-1)
    rows = torch.arange(len(batch.last))
    p, weight = batch.p, batch.weight
    count = weight.sum()
    answer = (
        -(weight * (p * logp[rows, batch.new] + (1 - p) * logp[rows, batch.true])).sum() / count
    )
    text = functional.cross_entropy(
        logits_at(model, top[batch.text]), batch.ids.flatten()[batch.text + 1]
    )
    chosen = answers.argmax(-1) == torch.where(p > 0.5, batch.new, batch.true)
    agree = (chosen * weight).sum() / count
    total = answer + LM_WEIGHT * text
    parts = {"answer": answer.item(), "text": text.item(), "agree": agree.item()}
    if batch.documents:
        found = document_losses(trace, batch.documents, batch.ids.size(1), probes, sharpness)
    else:
        found = {"object": recall_loss(trace, batch.last, batch.true, weight, probes)}
    for name, value in found.items():
        total = total + PROBE_WEIGHTS[name] * value
        parts[name] = value.item()
    return total, parts


@dataclass(frozen=True)
class Stage:
    """`steps` steps with `rows` plain rows each, `imagine` of them FactPrompt or EditCoT, and `tokens` of documents.

    lengths: token lengths of documents, one drawn at each step; empty: statements only.
    """

    steps: int
    rows: int
    imagine: int = 0
    tokens: int = 0
    lengths: tuple[int, ...] = ()


CURRICULUM = (
    Stage(200, 32),
    Stage(500, 12, 4, 3072, (128, 192)),
    Stage(700, 9, 3, 3328, (128, 256, 384)),
    Stage(1800, 7, 3, 3584, (192, 384, 512, 768, 768)),
)
# A quarter of the tokens, in half the steps: for the second model.
OTHER_CURRICULUM = (
    Stage(150, 24),
    Stage(350, 8, 3, 1536, (128, 192)),
    Stage(400, 6, 2, 1536, (128, 256, 384)),
    Stage(700, 5, 2, 1536, (192, 384, 512, 768)),
)


@dataclass(frozen=True)
class Progress:
    """A finished step: its number, the total, its stage, and the parts of the losses on documents and on plain rows."""

    step: int
    steps: int
    stage: int
    parts: dict[str, float]
    plain: dict[str, float]


def train(
    model: LlamaForCausalLM, kit: Kit, seed: int, curriculum: Sequence[Stage] = CURRICULUM
) -> Iterator[Progress]:
    """Train in place, yielding after every step. Deterministic for a seed, a thread count and a torch version."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    probes = new_probes(len(kit.relations), model.config.hidden_size)
    matrices = [p for name, p in model.model.layers.named_parameters() if p.ndim == 2]
    small = [p for name, p in model.model.named_parameters() if p.ndim == 1 or "embed" in name]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(
        [{"params": small}, {"params": list(probes.parameters())}],
        lr=4e-3,
        betas=(0.9, 0.97),
        weight_decay=0.0,
    )
    steps = sum(stage.steps for stage in curriculum)
    step = 0
    for number, stage in enumerate(curriculum):
        for _ in range(stage.steps):
            rate = min(1.0, (step + 1) / 30, 0.02 + (steps - step) / (0.4 * steps))
            total, plain = losses(
                model, probes, plain_batch(kit, rng, stage.rows, stage.imagine), 1.0
            )
            parts: dict[str, float] = {}
            if stage.lengths:
                batch = document_batch(kit, rng, stage.tokens, int(rng.choice(stage.lengths)))
                more, parts = losses(model, probes, batch, kit.observer.sharpness)
                total = total + more
            total.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(small, 1.0)
            muon.step(0.02 * rate)
            for group in adam.param_groups:
                group["lr"] = 4e-3 * rate
            adam.step()
            adam.zero_grad(set_to_none=True)
            step += 1
            if not math.isfinite(parts.get("answer", plain["answer"])):
                raise FloatingPointError(
                    f"the loss is not finite at step {step}; lower the learning rate"
                )
            yield Progress(step, steps, number, parts, plain)

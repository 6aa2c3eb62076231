"""How the embedded model learns: a plain Llama forward, losses on answers, text and training-only probes, the loop.

Loss of a step, over rows of statements and rows of in-context documents:

    CE(soft label of the reader, first answer token) + LM_WEIGHT * CE(next token, 40 % of positions) + probes

The probes make the reader's ingredients available half-way up and are thrown away. Three heads are taught to look for
the same object, subject and wording in the new fact. Linear read-outs follow: after layer 1, at each shown answer,
whether it adopted its new fact; after layer 2, there, its relation, and at each question's subject whether it is the
new fact's; after layer 3, at each question's last token, its relation, kind and own true object; after layer 4 the
reader's share. In layer 4 one head's attention is pulled to the reader's weights K_i, its own position standing for
the prior: the share is then this head's output. In layer 5 a head looks at the new object with the reader's P(new).

The forward is Llama's, on the parameters of a `LlamaForCausalLM`, with attention spelled out because that is fastest
on short rows on a CPU. Not here: what the documents are (`documents`), and saving (`build`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from drike.models.reader import NEIGHBOUR
from drike.tinyfacts.documents import Kit, Labelled, draw, imagined, label, statements
from drike.tinyfacts.muon import Muon
from drike.tinyfacts.tokens import END_OF_TEXT, VOCABULARY

WIDTH, HEADS, HEAD_WIDTH = 192, 3, 64
# Slow enough that half of a head's dimensions hardly turn within the context and can match content at any distance.
THETA = 1_000_000.0
CONTEXT = 1024
PLAIN_ROW = 128
# Where probes read: the residual after this layer.
BIT_LAYER, TOLD_LAYER, QUERY_LAYER, HEAD_LAYER = 1, 2, 3, 4
# Heads whose attention is supervised, as (layer, head).
SAME_OBJECT, SAME_SUBJECT, SAME_WORDING, WEIGHTS, GATE = (1, 0), (2, 1), (2, 0), (HEAD_LAYER, 0), (5, 0)
SUPERVISED = (SAME_OBJECT, SAME_SUBJECT, SAME_WORDING, WEIGHTS, GATE)
LM_SHARE, LM_WEIGHT = 0.4, 0.5
PROBE_WEIGHTS = {
    "same_object": 0.3,
    "same_subject": 0.3,
    "same_wording": 0.3,
    "weights": 0.5,
    "gate": 0.5,
    "bit": 0.3,
    "twin": 0.3,
    "told": 0.1,
    "asked": 0.1,
    "kind": 0.3,
    "object": 0.3,
    "share": 0.4,
}


def new_model(seed: int) -> LlamaForCausalLM:
    """An untrained model: 6 layers of width 192, 3 heads of 64, MLP 512, tied embeddings, 3.8 M parameters."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HEAD_WIDTH,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        rms_norm_eps=1e-5,
    )
    return LlamaForCausalLM(config)


@dataclass(frozen=True)
class Trace:
    """A forward's insides: residuals after each layer (B, T, width), and supervised heads' (q, k), each (B, T, 64)."""

    hidden: list[Tensor]
    heads: dict[tuple[int, int], tuple[Tensor, Tensor]]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def forward(model: LlamaForCausalLM, ids: Tensor) -> Trace:
    """Llama up to the final norm, in bfloat16 with a float32 residual; rows (B, T) are padded on the right."""
    (b, t), eps = ids.shape, model.config.rms_norm_eps
    angles = torch.arange(t)[:, None] * THETA ** (-torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    cos, sin = (f(angles).repeat(1, 2).bfloat16() for f in (torch.cos, torch.sin))
    mask = torch.full((t, t), float("-inf"), dtype=torch.bfloat16).triu(1).expand(b * HEADS, t, t)
    x = functional.embedding(ids, model.model.embed_tokens.weight)
    hidden = []
    supervised = {}
    for number, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        n = functional.rms_norm(x, (x.size(-1),), layer.input_layernorm.weight, eps).bfloat16()
        q, k, v = (
            functional.linear(n, p.weight.bfloat16()).view(b, t, HEADS, HEAD_WIDTH).transpose(1, 2)
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        for head in SUPERVISED:
            if head[0] == number:
                supervised[head] = q[:, head[1]], k[:, head[1]]
        flat = (-1, t, HEAD_WIDTH)
        logits = torch.baddbmm(mask, q.reshape(flat), k.reshape(flat).mT, alpha=HEAD_WIDTH**-0.5)
        mixed = torch.bmm(logits.softmax(-1), v.reshape(flat)).view(b, HEADS, t, HEAD_WIDTH).transpose(1, 2)
        x = x + functional.linear(mixed.reshape(b, t, HEADS * HEAD_WIDTH), attention.o_proj.weight.bfloat16())
        n = functional.rms_norm(x, (x.size(-1),), layer.post_attention_layernorm.weight, eps).bfloat16()
        gate, up = (functional.linear(n, p.weight.bfloat16()) for p in (mlp.gate_proj, mlp.up_proj))
        x = x + functional.linear(functional.silu(gate) * up, mlp.down_proj.weight.bfloat16())
        hidden.append(x)
    return Trace(hidden, supervised)


def logits_at(model: LlamaForCausalLM, hidden: Tensor) -> Tensor:
    """Next-token logits (N, vocabulary), float32, of last-layer residuals (N, width)."""
    n = functional.rms_norm(hidden, (hidden.size(-1),), model.model.norm.weight, model.config.rms_norm_eps).bfloat16()
    return functional.linear(n, model.model.embed_tokens.weight.bfloat16()).float()


@dataclass(frozen=True)
class Batch:
    """Padded rows with their labels. Sizes repeat from step to step: a new shape costs a CPU more than a step.

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


def _batch(rows: Sequence[Row], rng: np.random.Generator, t: int, documents: Sequence[Labelled] = ()) -> Batch:
    """Pad rows to t tokens, questions to a multiple of 32, and draw LM_SHARE of all positions as text."""
    ids = torch.zeros(len(rows), t, dtype=torch.long)
    questions: list[tuple[int, int, int, float, float]] = []
    must: list[int] = []
    may: list[int] = []
    for i, (tokens, ends, news, trues, chances, always) in enumerate(rows):
        ids[i, : len(tokens)] = torch.tensor(tokens)
        questions += [(i * t + e, n, o, p, 1.0) for e, n, o, p in zip(ends, news, trues, chances, strict=True)]
        must += [i * t + a for a in always]
        may += [i * t + a for a in sorted(set(range(len(tokens) - 1)) - set(ends) - set(always))]
    questions += [(0, 0, 0, 0.0, 0.0)] * (-len(questions) % 32)
    text = [*must, *rng.choice(may, size=int(LM_SHARE * ids.numel()) - len(must), replace=True).tolist()]
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
        (d.ids.tolist(), d.last.tolist(), d.new.tolist(), d.true.tolist(), d.p.tolist(), []) for d in documents
    ]
    return _batch(rows, rng, length, documents)


def new_probes(relations: int) -> nn.ModuleDict:
    """The linear read-outs used in training only."""
    sizes = {"bit": 1, "twin": 1, "told": relations, "asked": relations, "kind": 3, "object": VOCABULARY, "share": 1}
    return nn.ModuleDict({name: nn.Linear(WIDTH, size) for name, size in sizes.items()})


def _attention(trace: Trace, head: tuple[int, int], row: int, positions: Tensor) -> Tensor:
    """Log attention (N, T) of a supervised head from some positions of a row."""
    query, key = (x[row].float() for x in trace.heads[head])
    logits = query[positions] @ key.T * query.size(-1) ** -0.5
    logp: Tensor = logits.masked_fill(torch.arange(key.size(0)) > positions[:, None], -1e9).log_softmax(-1)
    return logp


def _match_loss(trace: Trace, documents: Sequence[Labelled], head: tuple[int, int]) -> Tensor:
    """A head that looks for the same object, subject or wording in the new fact, and at "Prompt:" if it is another."""
    terms = []
    for i, document in enumerate(documents):
        here, there, same = {
            SAME_OBJECT: (document.answer, document.told_object, document.adopted),
            SAME_SUBJECT: (document.asked_subject, document.told_subject, document.kind != NEIGHBOUR),
            SAME_WORDING: (document.last, document.told_object - 1, document.worded),
        }[head]
        logp = _attention(trace, head, i, torch.from_numpy(here))
        target = torch.from_numpy(np.where(same, there, document.mark))
        terms.append(-logp[torch.arange(len(here)), target])
    return torch.cat(terms).mean()


def _weights_loss(trace: Trace, documents: Sequence[Labelled]) -> Tensor:
    """Divergence of the supervised head's attention from the reader's weights, mean over questions, in nats."""
    terms = []
    for i, document in enumerate(documents):
        last, answer = torch.from_numpy(document.last), torch.from_numpy(document.answer)
        logp = _attention(trace, WEIGHTS, i, last)
        want = torch.from_numpy(document.attention).float()
        got = torch.cat([logp[:, answer], logp[torch.arange(len(last)), last][:, None]], 1)
        terms.append((torch.special.xlogy(want, want) - want * got.clamp(min=-30)).sum(1))
    return torch.cat(terms).mean()


def _gate_loss(trace: Trace, documents: Sequence[Labelled]) -> Tensor:
    """A last head that looks at the new object as far as it is believed, else at "Prompt:"; divergence in nats."""
    terms = []
    for i, document in enumerate(documents):
        logp = _attention(trace, GATE, i, torch.from_numpy(document.last))
        rows, p = torch.arange(len(logp)), torch.from_numpy(document.p).float()
        new, old = (logp[rows, torch.from_numpy(at)].clamp(min=-30) for at in (document.told_object, document.mark))
        terms.append(torch.special.xlogy(p, p) + torch.special.xlogy(1 - p, 1 - p) - p * new - (1 - p) * old)
    return torch.cat(terms).mean()


def _probe_losses(trace: Trace, batch: Batch, probes: nn.ModuleDict, sharpness: float) -> dict[str, Tensor]:
    t = batch.ids.size(1)
    docs = batch.documents

    def flat(name: str, layer: int) -> Tensor:
        where = torch.cat([i * t + torch.from_numpy(getattr(d, name)) for i, d in enumerate(docs)])
        rows: Tensor = trace.hidden[layer].flatten(0, 1)[where]
        return functional.rms_norm(rows, (rows.size(-1),))

    def stack(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(d, name) for d in docs]))

    asked, late = flat("last", QUERY_LAYER), flat("last", HEAD_LAYER)
    twin, relation = probes["twin"](flat("asked_subject", TOLD_LAYER)), stack("relation")
    yes_or_no = functional.binary_cross_entropy_with_logits
    return {
        "same_object": _match_loss(trace, docs, SAME_OBJECT),
        "same_subject": _match_loss(trace, docs, SAME_SUBJECT),
        "same_wording": _match_loss(trace, docs, SAME_WORDING),
        "weights": _weights_loss(trace, docs),
        "gate": _gate_loss(trace, docs),
        "bit": yes_or_no(probes["bit"](flat("answer", BIT_LAYER)).squeeze(1), stack("adopted").float()),
        "twin": yes_or_no(twin.squeeze(1), (stack("kind") != NEIGHBOUR).float()),
        "told": functional.cross_entropy(probes["told"](flat("answer", TOLD_LAYER)), relation),
        "asked": functional.cross_entropy(probes["asked"](asked), relation),
        "kind": functional.cross_entropy(probes["kind"](asked), stack("kind")),
        "object": functional.cross_entropy(probes["object"](asked), stack("true")),
        "share": yes_or_no(sharpness * probes["share"](late).squeeze(1), stack("p").float()),
    }


def losses(
    model: LlamaForCausalLM, probes: nn.ModuleDict, batch: Batch, sharpness: float
) -> tuple[Tensor, dict[str, float]]:
    """Total loss of a batch, and its parts: answer, text, probes, and `agree`, how often the reader's choice wins."""
    trace = forward(model, batch.ids)
    top = trace.hidden[-1].flatten(0, 1)
    answers = logits_at(model, top[batch.last])
    logp = answers.log_softmax(-1)
    rows = torch.arange(len(batch.last))
    p, weight = batch.p, batch.weight
    count = weight.sum()
    answer = -(weight * (p * logp[rows, batch.new] + (1 - p) * logp[rows, batch.true])).sum() / count
    text = functional.cross_entropy(logits_at(model, top[batch.text]), batch.ids.flatten()[batch.text + 1])
    chosen = answers.argmax(-1) == torch.where(p > 0.5, batch.new, batch.true)
    agree = (chosen * weight).sum() / count
    total = answer + LM_WEIGHT * text
    parts = {"answer": answer.item(), "text": text.item(), "agree": agree.item()}
    if not batch.documents:
        # Also facts that never stand in a document must be recalled by then, or heads above could not compare them.
        early = trace.hidden[QUERY_LAYER].flatten(0, 1)[batch.last]
        guess = functional.cross_entropy(
            probes["object"](functional.rms_norm(early, (WIDTH,))), batch.true, reduction="none"
        )
        object_loss = (guess * weight).sum() / count
        total = total + PROBE_WEIGHTS["object"] * object_loss
        parts["object"] = object_loss.item()
    else:
        for name, value in _probe_losses(trace, batch, probes, sharpness).items():
            total = total + PROBE_WEIGHTS[name] * value
            parts[name] = value.item()
    return total, parts


@dataclass(frozen=True)
class Stage:
    """`steps` steps of `rows` plain rows, `imagine` of them FactPrompt or EditCoT, and `tokens` of documents.

    lengths: token lengths of documents, one drawn each step; none: statements only.
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


@dataclass(frozen=True)
class Progress:
    """One step done: its number of all, the stage, and the parts of the loss on documents (or statements)."""

    step: int
    steps: int
    stage: int
    parts: dict[str, float]
    plain: dict[str, float]


def train(model: LlamaForCausalLM, kit: Kit, seed: int, curriculum: Sequence[Stage] = CURRICULUM) -> Iterator[Progress]:
    """Train in place, yielding after every step. Deterministic for a seed, a thread count and a torch version."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    probes = new_probes(len(kit.relations))
    matrices = [p for name, p in model.model.layers.named_parameters() if p.ndim == 2]
    small = [p for name, p in model.model.named_parameters() if p.ndim == 1 or "embed" in name]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(
        [{"params": small}, {"params": list(probes.parameters())}], lr=4e-3, betas=(0.9, 0.97), weight_decay=0.0
    )
    steps = sum(stage.steps for stage in curriculum)
    step = 0
    for number, stage in enumerate(curriculum):
        for _ in range(stage.steps):
            rate = min(1.0, (step + 1) / 30, 0.02 + (steps - step) / (0.4 * steps))
            total, plain = losses(model, probes, plain_batch(kit, rng, stage.rows, stage.imagine), 1.0)
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
                raise FloatingPointError(f"the loss is not finite at step {step}; lower the learning rate")
            yield Progress(step, steps, number, parts, plain)

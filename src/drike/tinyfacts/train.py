"""How the embedded model learns: a plain Llama forward, losses on answers, text and training-only probes, the loop.

Loss of a step, over rows of statements and rows of in-context documents:

    CE(soft label of the reader, first answer token) + LM_WEIGHT * CE(next token, 40 % of positions) + probes

The probes make the reader's ingredients linearly available half-way up and are thrown away: after layer 2, at each
shown answer, whether it adopted its new fact and its relation; after layer 3, at each question's last token, its relation, kind and own
true object; in layer 4 one head's attention is pulled to the reader's normalised weights K_i (its own position
standing for the prior); after layer 4 the reader's share itself. The forward is Llama's, on the parameters of a
`LlamaForCausalLM`, with attention spelled out because that is fastest on short rows on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from drike.tinyfacts.documents import Kit, Labelled, draw, imagined, label, statements
from drike.tinyfacts.muon import Muon
from drike.tinyfacts.tokens import VOCABULARY

CONTEXT = 1024
PLAIN_ROW = 128
BIT_LAYER, QUERY_LAYER, HEAD_LAYER = 2, 3, 4
LM_SHARE, LM_WEIGHT = 0.4, 0.5
PROBE_WEIGHTS = {"bit": 0.3, "told": 0.1, "asked": 0.1, "kind": 0.2, "object": 0.3, "head": 0.4, "share": 0.4}


def new_model(seed: int) -> LlamaForCausalLM:
    """An untrained model: 6 layers of width 192, 3 heads of 64, MLP 512, tied embeddings, 3.8 M parameters."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        rms_norm_eps=1e-5,
    )
    return LlamaForCausalLM(config)


@dataclass(frozen=True)
class Trace:
    """A forward's insides: residuals after each layer (B, T, width), and the supervised head's q and k (B, T, 64)."""

    hidden: list[Tensor]
    query: Tensor
    key: Tensor


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def forward(model: LlamaForCausalLM, ids: Tensor) -> Trace:
    """Llama's forward up to the final norm, in bfloat16 with a float32 residual; rows (B, T) are padded on the right."""
    config, (b, t) = model.config, ids.shape
    heads, width = config.num_attention_heads, config.head_dim
    theta = config.rope_parameters["rope_theta"]
    angles = torch.arange(t)[:, None] * theta ** (-torch.arange(0, width, 2) / width)
    cos, sin = (f(angles).repeat(1, 2).bfloat16() for f in (torch.cos, torch.sin))
    mask = torch.full((t, t), float("-inf"), dtype=torch.bfloat16).triu(1).expand(b * heads, t, t)
    x = F.embedding(ids, model.model.embed_tokens.weight)
    hidden = []
    for number, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        n = F.rms_norm(x, (x.size(-1),), layer.input_layernorm.weight, config.rms_norm_eps).bfloat16()
        q, k, v = (
            F.linear(n, p.weight.bfloat16()).view(b, t, heads, width).transpose(1, 2)
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if number == HEAD_LAYER:
            query, key = q[:, 0], k[:, 0]
        flat = (-1, t, width)
        logits = torch.baddbmm(mask, q.reshape(flat), k.reshape(flat).mT, alpha=width**-0.5)
        mixed = torch.bmm(logits.softmax(-1), v.reshape(flat)).view(b, heads, t, width).transpose(1, 2)
        x = x + F.linear(mixed.reshape(b, t, heads * width), attention.o_proj.weight.bfloat16())
        n = F.rms_norm(x, (x.size(-1),), layer.post_attention_layernorm.weight, config.rms_norm_eps).bfloat16()
        gate, up = (F.linear(n, p.weight.bfloat16()) for p in (mlp.gate_proj, mlp.up_proj))
        x = x + F.linear(F.silu(gate) * up, mlp.down_proj.weight.bfloat16())
        hidden.append(x)
    return Trace(hidden, query, key)


def logits_at(model: LlamaForCausalLM, hidden: Tensor) -> Tensor:
    """Next-token logits (N, vocabulary), float32, of last-layer residuals (N, width)."""
    n = F.rms_norm(hidden, (hidden.size(-1),), model.model.norm.weight, model.config.rms_norm_eps).bfloat16()
    return F.linear(n, model.model.embed_tokens.weight.bfloat16()).float()


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
    columns = [torch.tensor(column) for column in zip(*questions, strict=True)]
    return Batch(ids, *columns, torch.tensor(text), documents)


def plain_batch(kit: Kit, rng: np.random.Generator, rows: int, imagine: int) -> Batch:
    """`rows` rows of up to 128 tokens: `imagine` FactPrompt and EditCoT texts, the rest ten or so statements each."""
    made: list[Row] = []
    while len(made) < rows - imagine:
        ids, answers = statements(kit, rng, 11)
        answers = [a for a in answers if a < PLAIN_ROW]
        true = [ids[a] for a in answers]
        made.append((ids[:PLAIN_ROW], [a - 1 for a in answers], true, true, [0.0] * len(true), []))
    while len(made) < rows:
        thought = len(made) % 3 == 0
        ids, last, new, answer, p = imagined(kit, rng, thought)
        if len(ids) >= PLAIN_ROW:
            continue
        # An EditCoT reply opens with the cue, whose tokens are always learned.
        always = list(range(len(ids) - 1 - len(kit.wordings.ids("\nAnswer:")), len(ids) - 1)) if thought else []
        made.append(([*ids, new if p > 0.5 else answer], [last], [new], [answer], [p], always))
    return _batch(made, rng, PLAIN_ROW)


def document_batch(kit: Kit, rng: np.random.Generator, tokens: int, length: int) -> Batch:
    """tokens // length in-context documents, each as many demonstrations as `length` tokens hold, or rather fewer."""
    documents: list[Labelled] = []
    while len(documents) < tokens // length:
        most = length // 22
        items = draw(kit, rng, int(rng.integers(max(0, most - 8), max(1, most - 3))))
        document = label(kit, rng, items)
        if len(document.ids) <= length:
            documents.append(document)
    rows = [(d.ids.tolist(), d.last.tolist(), d.new.tolist(), d.true.tolist(), d.p.tolist(), []) for d in documents]
    return _batch(rows, rng, length, documents)


def new_probes(relations: int) -> nn.ModuleDict:
    """The linear read-outs used in training only."""
    sizes = {"bit": 1, "told": relations, "asked": relations, "kind": 3, "object": VOCABULARY, "share": 1}
    return nn.ModuleDict({name: nn.Linear(192, size) for name, size in sizes.items()})


def _head_loss(trace: Trace, documents: Sequence[Labelled]) -> Tensor:
    """Divergence of the supervised head's attention from the reader's weights, mean over questions, in nats."""
    terms = []
    for i, document in enumerate(documents):
        last, answer = torch.from_numpy(document.last), torch.from_numpy(document.answer)
        query, key = trace.query[i, last].float(), trace.key[i].float()
        logits = query @ key.T * query.size(-1) ** -0.5
        future = torch.arange(key.size(0)) > last[:, None]
        logp = logits.masked_fill(future, -1e9).log_softmax(-1)
        want = torch.from_numpy(document.attention).float()
        got = torch.cat([logp[:, answer], logp[torch.arange(len(last)), last][:, None]], 1)
        terms.append((torch.special.xlogy(want, want) - want * got.clamp(min=-30)).sum(1))
    return torch.cat(terms).mean()


def _probe_losses(trace: Trace, batch: Batch, probes: nn.ModuleDict, sharpness: float) -> dict[str, Tensor]:
    t = batch.ids.size(1)
    docs = batch.documents

    def flat(name: str, layer: int) -> Tensor:
        where = torch.cat([i * t + torch.from_numpy(getattr(d, name)) for i, d in enumerate(docs)])
        return trace.hidden[layer].flatten(0, 1)[where]

    def stack(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(d, name) for d in docs]))

    shown, asked, late = flat("answer", BIT_LAYER), flat("last", QUERY_LAYER), flat("last", HEAD_LAYER)
    relation = stack("relation")
    return {
        "bit": F.binary_cross_entropy_with_logits(probes["bit"](shown).squeeze(1), stack("adopted").float()),
        "told": F.cross_entropy(probes["told"](shown), relation),
        "asked": F.cross_entropy(probes["asked"](asked), relation),
        "kind": F.cross_entropy(probes["kind"](asked), stack("kind")),
        "object": F.cross_entropy(probes["object"](asked), stack("true")),
        "head": _head_loss(trace, docs),
        "share": F.binary_cross_entropy_with_logits(sharpness * probes["share"](late).squeeze(1), stack("p").float()),
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
    text = F.cross_entropy(logits_at(model, top[batch.text]), batch.ids.flatten()[batch.text + 1])
    chosen = answers.argmax(-1) == torch.where(p > 0.5, batch.new, batch.true)
    agree = (chosen * weight).sum() / count
    total = answer + LM_WEIGHT * text
    parts = {"answer": answer.item(), "text": text.item(), "agree": agree.item()}
    if batch.documents:
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
    Stage(700, 12, 4, 3072, (128, 192)),
    Stage(1000, 9, 3, 3328, (128, 256, 384)),
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

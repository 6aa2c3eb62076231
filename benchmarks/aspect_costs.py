"""Count the tokens that an evaluation computes with all aspects, and with the paper's three.

    python benchmarks/aspect_costs.py [--data ../shared/datasets] [--edits 5]

The questions about an edit share its demonstrations, which the model reads once, so further aspects should cost little:
at most twice the computed tokens. Data: HalluEditBench's and KnowEdit's published rows in the folder --data, left out
where they are missing, and TinyFacts; both with the probes that `--probes all` generates. Tokens do not depend on the
weights, so the model is a small random one with the embedded tokenizer. Asking the unedited model for answers that are
not published is counted once, in the row of all editors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from drike import tinyfacts
from drike.edits.edit import EditCase
from drike.encoders import HashingEncoder
from drike.models.local.checkpoints import open_checkpoint
from drike.models.local.huggingface import HuggingFaceModel
from drike.research.datasets import TINYFACTS, load
from drike.research.datasets.generated import with_generated
from drike.research.editors.catalog import make
from drike.research.editors.editor import Editor
from drike.research.editors.pool import Pool
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.evaluate import evaluate
from lib import pages

TITLE = "What further aspects cost"

FILES = {
    "HalluEditBench": "halluedit_llama2/*.csv",
    "KnowEdit zsRE": "knowedit_zsre_test.json",
    "KnowEdit WikiData-counterfact": "knowedit_wiki_counterfact_train.json",
}
EDITORS = ("unedited", "factprompt", "editcot", "ike", "nearest@4", "by-name")
ANSWER = "something else"  # stands for a random model's answer, which would mostly be unusable


def random_model() -> HuggingFaceModel:
    """A Llama of one small layer with random weights, which reads prompts of any length."""
    _, tokenizer = open_checkpoint(str(tinyfacts.MODEL), None)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1,
        max_position_embeddings=16384,
    )  # fmt: skip
    return HuggingFaceModel(LlamaForCausalLM(config).eval(), tokenizer, name="random", budget=16384)


def tokens_of(model: HuggingFaceModel, editor: Editor, cases: Sequence[EditCase]) -> int:
    """The tokens that an evaluation computes, each edit's demonstrations read anew."""
    model.forget()
    before = model.usage.tokens_computed
    for _ in evaluate(editor, model, cases):
        pass
    return model.usage.tokens_computed - before


def row(
    model: HuggingFaceModel, name: str, files: Sequence[str | Path], edits: int
) -> tuple[str, ...]:
    """The tokens of an edit with three aspects and with all: for each editor, and for all editors together."""
    split = load(*files).split(train=0, test=edits)
    pool, cases = Pool(split.demonstrations, HashingEncoder()), with_generated(split.test)
    before = model.usage.tokens_computed
    baseline_answers(model, cases)
    own = model.usage.tokens_computed - before
    answers = {
        one.query: one.choices[0] if one.choices else ANSWER
        for case in cases
        for one in case.baseline_questions
    }
    whole = with_baseline_answers(cases, answers).cases
    three = [replace(case, further=()) for case in whole]
    per_edit = [sum(len(case.asked) for case in some) / len(some) for some in (three, whole)]
    found, total = [], [0, own]
    for editor in (make(one, pool=pool) for one in EDITORS):
        for _ in range(
            2
        ):  # the second time the engine has checked itself on prompts of this length
            counts = [tokens_of(model, editor, some) for some in (three, whole)]
        total = [sum(pair) for pair in zip(total, counts, strict=True)]
        found.append(counts)
        print(f"{name}: {editor.name}", file=sys.stderr, flush=True)
    cells = (f"{a / edits:,.0f} to {b / edits:,.0f} ({b / a:.2f})" for a, b in (*found, total))
    return (name, f"{per_edit[0]:.0f} to {per_edit[1]:.0f}", *cells)


def main() -> None:
    """Print the table; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("../shared/datasets"),
        help="folder with the published rows",
    )
    parser.add_argument("--edits", type=int, default=5, help="test edits of each data set")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    model, found = random_model(), list[tuple[str, ...]]()
    for name, pattern in FILES.items():
        if files := sorted(options.data.glob(pattern)):
            found.append(row(model, name, files, options.edits))
        else:
            print(
                f"{name} is left out: there is no {pattern} in {options.data}, give its folder with --data",
                file=sys.stderr,
            )
    found.append(row(model, "TinyFacts", [TINYFACTS], options.edits))
    title = f"Computed tokens of an edit, three aspects to all (ratio), {options.edits} edits of each data set"
    pages.draw(title, ("data", "questions", *EDITORS, "all editors, own answers"), found)


if __name__ == "__main__":
    main()

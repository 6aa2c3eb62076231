"""Some rows of each published form, unedited, under FactPrompt and under IKE; docs/results.md.

FOLDER holds the files by the names below; what is missing is skipped. This shows that a form is read and asked
completely. The embedded model does not know the facts of these files, so the figures say nothing about editors. Test
edits are those that `drike evaluate` draws. Prints Markdown; progress goes to standard error.

    python benchmarks/forms.py FOLDER [--edits 40] [--model embedded] > forms.md
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from drike.datasets import Dataset, load
from drike.demonstrations import Role
from drike.editors.budgets import TokenLimit
from drike.editors.catalog import make
from drike.editors.pool import Pool
from drike.edits import Aspect
from drike.encoders import load_encoder
from drike.evaluation.baseline_answers import AnsweredCases, baseline_answers, with_baseline_answers
from drike.evaluation.evaluate import evaluate
from drike.evaluation.judge import Judge
from drike.evaluation.metrics import Outcome, Summary, summarise
from drike.models import load as load_model
from drike.report import Table, as_markdown

FILES = {
    "HalluEditBench, 26 topics": "halluedit_llama2/*.csv",
    "WikiData-counterfact (KnowEdit)": "knowedit_wiki_counterfact_train.json",
    "zsRE (KnowEdit)": "knowedit_zsre_test.json",
    "QAEdit": "qaedit_1k.json",
    "RippleEdits": "ripple_pop.json",
    "MQuAKE": "mquake_300.json",
}
EDITORS = ("unedited", "factprompt", "ike")
ROLES = ((Role.COPY, 1), (Role.UPDATE, 3), (Role.RETAIN, 4))  # a quarter of IKE's: the model reads 1,024 tokens


def by_aspect(data: Dataset, summaries: Sequence[Summary], *notes: str) -> Table:
    """A row for each aspect that the data ask: its probes in all cases, those asked, and each editor's share."""
    in_all = Counter(one.aspect for case in data.cases for one in (*case.asked, *case.baseline_questions))
    rows = []
    for aspect in (aspect for aspect in Aspect if in_all[aspect]):
        of_each = [one.aspects[aspect] for one in summaries]
        asked = f"{of_each[0].probes:,} ({of_each[0].edits})"
        rows.append((aspect.value, f"{in_all[aspect]:,}", asked, *(one.estimate for one in of_each)))
    title = f"{data.name}: {len(data.cases):,} cases of {sum(one.rows for one in data.sources):,} rows"
    header = ("aspect", "probes", "asked (edits)", *(one.editor for one in summaries))
    return Table(title, header, tuple(rows), notes)


def left_out(data: Dataset, resolved: AnsweredCases) -> Iterator[str]:
    """What reading the files left out, and which test questions the model gave no usable answer to."""
    yield f"Left out: {'; '.join(f'{one.count:,} x {one.what}: {one.reason}' for one in data.dropped) or 'nothing'}."
    if resolved.asked:
        yield (
            f"{resolved.asked} test questions have no published answer; left out are {resolved.unusable} without "
            f"an answer of the unedited model that can be judged and {resolved.new} answered with the new object."
        )


def main() -> None:
    """Print for each form what was read, and the figures of each editor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("datasets"), help="folder of the files")
    parser.add_argument("--edits", type=int, default=40, help="test edits of each form")
    parser.add_argument("--model", default="embedded", help="model to edit")
    parser.add_argument("--prompt-tokens", type=int, default=960, help="the last retains are dropped to fit")
    options = parser.parse_args()
    found = {name: sorted(options.folder.glob(pattern)) for name, pattern in FILES.items()}
    for name in [name for name, paths in found.items() if not paths]:
        print(f"{name} is skipped: {options.folder} holds no {FILES.pop(name)}", file=sys.stderr)
    model, encoder = load_model(options.model), load_encoder()
    rule = Judge(model).rule
    limit = TokenLimit(options.prompt_tokens, model.count_tokens) if model.count_tokens else None
    for name in FILES:
        data = load(*found[name], name=name)
        parts = data.split(test=options.edits, train=0)
        pool = Pool(parts.demonstrations, encoder, roles=ROLES)
        resolved = with_baseline_answers(parts.test, baseline_answers(model, parts.test, rule))
        outcomes: dict[str, list[Outcome]] = {}
        for editor in (make(one, pool=pool, model=model, limit=limit) for one in EDITORS):
            print(f"  {name}: {editor.name}", file=sys.stderr, flush=True)
            outcomes[editor.name] = list(evaluate(editor, model, resolved.cases, rule=rule))
        summaries = [summarise(of_editor, outcomes["Unedited"]) for of_editor in outcomes.values()]
        print(as_markdown(by_aspect(data, summaries, *pool.fallbacks, *left_out(data, resolved))))


if __name__ == "__main__":
    main()

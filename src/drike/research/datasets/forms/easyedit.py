"""EasyEdit's flat form, CounterFact's above all: one prompt, rephrased prompt and neighbour a row.

CounterFact's `rephrase_prompt` is mostly one of its *generation* prompts, which do not ask for the
object. It is kept only if it ends in the whole wording of some row's own prompt with the same true
object; without cleaning, all are dropped. That of other files is taken as published.
"""

from collections import defaultdict
from collections.abc import Sequence

from drike.edits.edit import Edit
from drike.research.datasets.cleaning import Templates, begins, known_end
from drike.research.datasets.form import (
    EditedRow,
    Form,
    Paraphrases,
    Questions,
    Target,
    edit_about,
    neighbour,
    paraphrase,
)
from drike.research.datasets.read_log import Cut, How, ReadLog
from drike.support.rows import Row
from drike.text.templates import Template, around


def _recognises(row: Row) -> bool:
    asks = not row.values.keys().isdisjoint({"rephrase_prompt", "locality_prompt"})
    return asks and row.values.keys() >= {"prompt", "subject", "target_new", "ground_truth"}


def _edits(row: Row, target: Target) -> list[Edit]:
    return [edit_about(row, "prompt", row.text("target_new"), row.text("ground_truth"))]


def _screened_questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    text = row.text("rephrase_prompt")
    templates = wordings.get(edit.target_true or "", ()) if wordings is not None else ()
    start = known_end(text, edit.subject or "", templates)
    if start is None or not begins(text, start):
        reason = "rephrase_prompt is not a known wording of the question"
        log.drop("paraphrase", reason, row)
    else:
        how: How = "template" if start > 0 else "unchanged"
        log.cuts.append(Cut(text, text[start:], how, suspicious=False))
        yield paraphrase(edit, text[start:])
    yield neighbour(edit, row.text("locality_prompt"), row.text("locality_ground_truth"))


def _questions_as_published(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    yield paraphrase(edit, row.text("rephrase_prompt"))
    yield neighbour(edit, row.text("locality_prompt"), row.text("locality_ground_truth"))


def _prompts_by_object(rows: Sequence[EditedRow]) -> Templates:
    """For each true object, the templates of the prompts that ask for it."""
    templates: dict[str, set[Template]] = defaultdict(set)
    for _, [edit] in rows:
        template = around(edit.query, edit.subject or "")
        if template is not None:
            templates[edit.target_true or ""].add(template)
    return templates


SCREENED = Form(
    "EasyEdit's flat CounterFact (case_id, prompt, subject, target_new, ground_truth)",
    _recognises,
    _edits,
    _screened_questions,
    learn=_prompts_by_object,
)
AS_PUBLISHED = Form(
    "EasyEdit's flat form, paraphrases as published "
    "(prompt, subject, target_new, ground_truth, rephrase_prompt)",
    _recognises,
    _edits,
    _questions_as_published,
)


def flat_form(rows: Sequence[Row], paraphrases: Paraphrases | None) -> Form:
    """The form of a file of this shape. By default only CounterFact's paraphrases are screened."""
    if paraphrases is not None:
        return SCREENED if paraphrases == "screen" else AS_PUBLISHED
    # CounterFact's neighbours have the row's own old object in all rows.
    is_counterfact = all(
        row.values.get("locality_ground_truth") == row.values.get("ground_truth") for row in rows
    )
    return SCREENED if is_counterfact else AS_PUBLISHED

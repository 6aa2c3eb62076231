"""CounterFact as published (Meng et al. 2022), whose paraphrases have an unrelated start."""

from collections.abc import Sequence

from drike.edits.edit import Edit
from drike.research.datasets.cleaning import Templates, clean, learn
from drike.research.datasets.form import (
    EditedRow,
    Form,
    Questions,
    Target,
    neighbour,
    paraphrase,
)
from drike.research.datasets.read_log import ReadLog
from drike.support.rows import Row, shown


def edit_at(row: Row, *path: str) -> Edit:
    """The edit that a row has at a path, in the fields of CounterFact's `requested_rewrite`."""
    prompt = row.text(*path, "prompt")
    subject = row.text(*path, "subject")
    if prompt.count("{}") != 1:
        problem = f"must hold {{}} exactly once for the subject, it is {shown(prompt)!r}"
        raise row.wrong(".".join((*path, "prompt")), problem)
    return Edit(
        query=prompt.replace("{}", subject),
        target_new=row.text(*path, "target_new", "str"),
        target_true=row.text(*path, "target_true", "str"),
        subject=subject,
        relation=row.text(*path, "relation_id"),
    )


def _recognises(row: Row) -> bool:
    return isinstance(row.values.get("requested_rewrite"), dict)


def _edits(row: Row, target: Target) -> list[Edit]:
    return [edit_at(row, "requested_rewrite")]


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    for text in row.texts("paraphrase_prompts"):
        if wordings is None:
            yield paraphrase(edit, text)
        else:
            cut = clean(text, edit.subject or "", wordings.get(edit.relation or "", ()))
            log.cuts.append(cut)
            yield paraphrase(edit, cut.after)
    for text in row.texts("neighborhood_prompts"):
        yield neighbour(edit, text, edit.target_true or "")


def _learn(rows: Sequence[EditedRow]) -> Templates:
    return learn((edit, row.texts("paraphrase_prompts")) for row, [edit] in rows)


FORM = Form(
    "CounterFact as published (requested_rewrite, paraphrase_prompts, neighborhood_prompts)",
    _recognises,
    _edits,
    _questions,
    case_id=Row.case_id,
    learn=_learn,
)

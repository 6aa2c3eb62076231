"""CounterFact in its published form (Meng et al. 2022): rows with `requested_rewrite`, paraphrases, neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from drike.datasets.form import Entry, Form
from drike.datasets.paraphrases import Templates, clean, learn
from drike.datasets.rows import Row, shown
from drike.edits import Edit


def edit_at(row: Row, *path: str) -> Edit:
    """The edit at `path`, whose prompt has {} for its subject."""
    prompt, subject = row.text(*path, "prompt"), row.text(*path, "subject")
    if prompt.count("{}") != 1:
        problem = f"must hold {{}} exactly once for the subject, it is {shown(prompt)!r}"
        raise row.wrong(".".join((*path, "prompt")), problem)
    new, true = row.text(*path, "target_new", "str"), row.text(*path, "target_true", "str")
    return Edit(prompt.replace("{}", subject), new, true, subject, row.text(*path, "relation_id"))


def _paraphrases(entry: Entry, known: Templates | None) -> Iterator[str]:
    edit = entry.edit
    for text in entry.row.texts("paraphrase_prompts"):
        if known is None:
            yield text
        else:
            yield entry.cut(clean(text, edit.subject or "", known.get(edit.relation or "", ())))


FORM = Form(
    name="CounterFact as published (requested_rewrite, paraphrase_prompts, neighborhood_prompts)",
    recognises=lambda row: isinstance(row.values.get("requested_rewrite"), dict),
    edit=lambda row, target: edit_at(row, "requested_rewrite"),
    case_id=Row.case_id,
    learn=lambda entries: learn((entry.edit, entry.row.texts("paraphrase_prompts")) for entry in entries),
    paraphrases=_paraphrases,
    neighbours=lambda entry: [(text, entry.edit.target_true or "") for text in entry.row.texts("neighborhood_prompts")],
)

"""CounterFact in its published form (Meng et al. 2022): rows with `requested_rewrite`, paraphrases, neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from drike.datasets.form import Entry, Form, Target
from drike.datasets.paraphrases import Templates, clean, learn
from drike.datasets.rows import Row, shown
from drike.edits import Edit


def _edit(row: Row, target: Target) -> Edit:
    prompt, subject = row.text("requested_rewrite", "prompt"), row.text("requested_rewrite", "subject")
    if prompt.count("{}") != 1:
        raise row.wrong(
            "requested_rewrite.prompt", f"must hold {{}} exactly once for the subject, it is {shown(prompt)!r}"
        )
    return Edit(
        query=prompt.replace("{}", subject),
        target_new=row.text("requested_rewrite", "target_new", "str"),
        target_true=row.text("requested_rewrite", "target_true", "str"),
        subject=subject,
        relation=row.text("requested_rewrite", "relation_id"),
    )


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
    edit=_edit,
    case_id=Row.case_id,
    learn=lambda entries: learn((entry.edit, entry.row.texts("paraphrase_prompts")) for entry in entries),
    paraphrases=_paraphrases,
    neighbours=lambda entry: [(text, entry.edit.target_true or "") for text in entry.row.texts("neighborhood_prompts")],
)

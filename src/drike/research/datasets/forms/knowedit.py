"""KnowEdit (Zhang et al. 2024): zsRE, WikiData-counterfact and WikiData-recent.

Neighbours are Relation_Specificity: another relation of the *same* subject. They and the subject's
aliases are asked for RR and PC, as in the paper, and again as same_subject and alias, with all
right answers. Forgetfulness asks for another object of the edited relation.
"""

from collections.abc import Iterator, Sequence

from drike.edits.edit import Aspect, Edit, Probe
from drike.research.datasets.cleaning import Templates
from drike.research.datasets.form import (
    Form,
    Questions,
    Target,
    edit_about,
    is_answer,
    neighbour,
    paraphrase,
    texts_if_any,
)
from drike.research.datasets.read_log import ReadLog
from drike.support.rows import Row
from drike.text.words import mentions


def _recognises(row: Row) -> bool:
    has_sections = any(
        isinstance(row.values.get(section), dict) for section in ("locality", "portability")
    )
    return (
        has_sections
        and row.values.keys() >= {"subject", "prompt", "target_new"}
        and "locality_prompt" not in row.values
    )


def _is_zsre(row: Row) -> bool:
    return "rephrase_prompt" in row.values


def _edits(row: Row, target: Target) -> list[Edit]:
    new = row.answer("target_new")
    true = row.answer("ground_truth") if "ground_truth" in row.values else None
    if target == "answers" and _is_zsre(row):  # WikiData's rows have one reading only
        return [edit_about(row, "prompt", true or "", None)]
    return [edit_about(row, "prompt", new, true)]


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    if _is_zsre(row):
        paraphrases: Iterator[str] = iter(row.aliases("rephrase_prompt"))
    else:
        paraphrases = _queries_by_alias(row, edit, log, "paraphrase")
    for text in paraphrases:
        yield paraphrase(edit, text)

    yield from _neighbours(row, edit, log)
    for fact in row.objects("locality", "Forgetfulness"):
        yield _probe(Aspect.SAME_SUBJECT, fact, edit.target_new)
    for text in _queries_by_alias(row, edit, log, "alias probe"):
        yield Probe(Aspect.ALIAS, text, edit.target_new, edit.target_true)
    yield from _consequences(row, edit, log)


def _neighbours(row: Row, edit: Edit, log: ReadLog) -> Iterator[Probe]:
    """Each neighbour, and again as same_subject where it is about the subject."""
    old_answers = texts_if_any(row, "ground_truth")
    for fact in row.objects("locality", "Relation_Specificity"):
        query = fact.answer("prompt")
        answer = fact.answer("ground_truth")
        is_about_subject = mentions(query, edit.subject or "")
        if is_about_subject and answer and is_answer(answer, old_answers):
            log.drop("neighbour", "asks the edited fact (own subject, old object)", row)
            continue
        yield neighbour(edit, query, answer)
        if is_about_subject:
            yield _probe(Aspect.SAME_SUBJECT, fact, edit.target_new)


def _queries_by_alias(row: Row, edit: Edit, log: ReadLog, what: str) -> Iterator[str]:
    """The edited fact asked for by the subject's aliases; `what` the log calls them."""
    for fact in row.objects("portability", "Subject_Aliasing"):
        if is_answer(edit.target_new, fact.aliases("ground_truth")):
            yield fact.answer("prompt")
        else:
            log.drop(what, "its answer is not the new object", row)


def _consequences(row: Row, edit: Edit, log: ReadLog) -> Iterator[Probe]:
    """What follows from the made-up object: multi_hop probes, and reverse ones."""
    is_made_up = is_answer(edit.target_new, [row.answer("target_new")])
    for fact in row.objects("portability", "Reasoning"):
        if is_made_up:
            yield _probe(Aspect.MULTI_HOP, fact, None)
        else:
            log.drop("multi_hop probe", "follows from the other target", row)

    for fact in row.objects("portability", "Logical_Generalization"):
        if not is_made_up:
            log.drop("reverse probe", "follows from the other target", row)
        elif not is_answer(edit.subject or "", fact.aliases("ground_truth")):
            log.drop("reverse probe", "its answer is not the subject", row)
        else:
            yield _probe(Aspect.REVERSE, fact, None)


def _probe(aspect: Aspect, fact: Row, distractor: str | None) -> Probe:
    """A probe with all published answers; where there is none, "" as its target, which drops it."""
    answers = fact.aliases("ground_truth") or ("",)
    return Probe(aspect, fact.answer("prompt"), answers[0], distractor, also=answers[1:])


def _answers(row: Row) -> Sequence[str]:
    return texts_if_any(row, "ground_truth")


FORM = Form(
    "KnowEdit's form (prompt, target_new, ground_truth, locality, portability)",
    _recognises,
    _edits,
    _questions,
    answers=_answers,
)

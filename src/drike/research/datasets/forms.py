"""The published forms that drike reads: how a row is recognised, what it edits and what it asks."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from drike.edits.edit import Aspect, BaselineQuestion, Edit, Probe
from drike.research.datasets import form, own
from drike.research.datasets.form import (
    Asked,
    EditedRow,
    Form,
    Paraphrases,
    Target,
    Templates,
)
from drike.research.datasets.generated import choice, yes_no
from drike.research.datasets.read_log import Cut, ReadLog
from drike.support.rows import GROUP, Row, shown
from drike.text.templates import Template, around
from drike.text.words import mentions

# CounterFact as published (Meng et al. 2022): `requested_rewrite`, paraphrases with an unrelated start, neighbours.


def _edit_at(row: Row, *path: str) -> Edit:
    prompt, subject = row.text(*path, "prompt"), row.text(*path, "subject")
    if prompt.count("{}") != 1:
        problem = f"must hold {{}} exactly once for the subject, it is {shown(prompt)!r}"
        raise row.wrong(".".join((*path, "prompt")), problem)
    new, true = row.text(*path, "target_new", "str"), row.text(*path, "target_true", "str")
    return Edit(prompt.replace("{}", subject), new, true, subject, row.text(*path, "relation_id"))


def _counterfact(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    edit = edits[0]
    for text in row.texts("paraphrase_prompts"):
        if known is not None:
            cut = form.clean(text, edit.subject or "", known.get(edit.relation or "", ()))
            log.cuts.append(cut)
        yield form.paraphrase(edit, text if known is None else cut.after)
    yield from (
        form.neighbour(edit, text, edit.target_true or "")
        for text in row.texts("neighborhood_prompts")
    )


# The multi-hop form of MQuAKE (Zhong et al. 2023), in which RippleEdits (Cohen et al. 2024) is published as well: a row
# has edits, all in force at once, and questions whose answer follows from them and more.


def _multihop_edits(row: Row, target: Target) -> list[Edit]:
    if not (rewrites := row.objects("requested_rewrite")):
        raise row.wrong("requested_rewrite", "must hold an edit")
    edits = map(_edit_at, rewrites)
    return [
        replace(edit, query=" ".join(edit.query.split())) for edit in edits
    ]  # RippleEdits doubles some spaces


def _multihop(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    new = row.text("new_answer")
    for edit, rewrite in zip(edits, row.objects("requested_rewrite"), strict=True):
        yield from (form.paraphrase(edit, text) for text in _texts_if_any(rewrite, "question"))
    # As many facts lead to the new answer as `new_single_hops` lists, or `single_hops` if it has none.
    before, after = (len(row.objects(field)) for field in ("single_hops", "new_single_hops"))
    hops = after or before or None
    if before and after and before != after:
        log.dropped["number of hops", "single_hops and new_single_hops differ in it"].append(row)
        hops = None
    old = next(iter(_texts_if_any(row, "answer")), None)
    also = tuple(alias for alias in _texts_if_any(row, "new_answer_alias") if alias != new)
    for text in row.texts("questions"):
        if old and form.is_answer(old, (new, *also)):
            log.dropped["multi_hop probe", "the edits do not change its answer"].append(row)
        else:
            yield Probe(Aspect.MULTI_HOP, text, new, old, also, hops=hops)


def _texts_if_any(row: Row, field: str) -> tuple[str, ...]:
    """The texts of a field that a row may lack, or leave null."""
    return () if row.values.get(field) is None else row.aliases(field)


# KnowEdit (Zhang et al. 2024): zsRE, WikiData-counterfact and WikiData-recent. Neighbours are Relation_Specificity:
# another relation of the *same* subject. They and the subject's aliases are asked for RR and PC, as in the paper, and
# again as same_subject and alias, with all right answers. Forgetfulness: another object of the edited relation.


def _is_knowedit(row: Row) -> bool:
    sections = any(
        isinstance(row.values.get(section), dict) for section in ("locality", "portability")
    )
    return (
        sections
        and row.values.keys() >= {"subject", "prompt", "target_new"}
        and "locality_prompt" not in row.values
    )


def _knowedit_edits(row: Row, target: Target) -> list[Edit]:
    new, true = (
        row.answer("target_new"),
        row.answer("ground_truth") if "ground_truth" in row.values else None,
    )
    if (
        target == "answers" and "rephrase_prompt" in row.values
    ):  # zsRE; WikiData's rows have one reading only
        new, true = true or "", None
    return [form.edit_about(row, "prompt", new, true)]


def _knowedit(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    edit, old = edits[0], _texts_if_any(row, "ground_truth")
    by_alias = partial(_by_alias, row, edit, log)
    worded = (
        row.aliases("rephrase_prompt")
        if "rephrase_prompt" in row.values
        else by_alias("paraphrase")
    )
    yield from (form.paraphrase(edit, text) for text in worded)
    for fact in row.objects("locality", "Relation_Specificity"):
        query, answer = fact.answer("prompt"), fact.answer("ground_truth")
        about = mentions(query, edit.subject or "")
        if about and answer and form.is_answer(answer, old):
            log.dropped["neighbour", "asks the edited fact (own subject, old object)"].append(row)
            continue
        yield form.neighbour(edit, query, answer)
        if about:
            yield _fact(Aspect.SAME_SUBJECT, fact, edit.target_new)
    yield from (
        _fact(Aspect.SAME_SUBJECT, fact, edit.target_new)
        for fact in row.objects("locality", "Forgetfulness")
    )
    yield from (
        Probe(Aspect.ALIAS, text, edit.target_new, edit.target_true)
        for text in by_alias("alias probe")
    )
    follows = form.is_answer(edit.target_new, [row.answer("target_new")])
    for section, aspect in (
        ("Reasoning", Aspect.MULTI_HOP),
        ("Logical_Generalization", Aspect.REVERSE),
    ):
        for fact in row.objects("portability", section):
            if not follows:
                log.dropped[f"{aspect} probe", "follows from the other target"].append(row)
            elif aspect is Aspect.REVERSE and not form.is_answer(
                edit.subject or "", fact.aliases("ground_truth")
            ):
                log.dropped["reverse probe", "its answer is not the subject"].append(row)
            else:
                yield _fact(aspect, fact, None)


def _by_alias(row: Row, edit: Edit, log: ReadLog, what: str) -> Iterator[str]:
    """The edited fact asked for by the subject's aliases."""
    for fact in row.objects("portability", "Subject_Aliasing"):
        if form.is_answer(edit.target_new, fact.aliases("ground_truth")):
            yield fact.answer("prompt")
        else:
            log.dropped[what, "its answer is not the new object"].append(row)


def _fact(aspect: Aspect, fact: Row, distractor: str | None) -> Probe:
    """A probe with all published answers; "" as its target, which drops it, where there is none."""
    target, *also = fact.aliases("ground_truth") or ("",)
    return Probe(aspect, fact.answer("prompt"), target, distractor, tuple(also))


# EasyEdit's flat form, CounterFact's above all: one prompt, rephrased prompt and neighbour a row, all plain texts.
# CounterFact's `rephrase_prompt` is mostly one of its *generation* prompts, which do not ask for the object. It is kept
# only if it ends in the whole wording of some row's own prompt with the same true object; without cleaning, all are
# dropped. That of other files is taken as published.


def _is_flat(row: Row) -> bool:
    asked = not row.values.keys().isdisjoint({"rephrase_prompt", "locality_prompt"})
    return asked and row.values.keys() >= {"prompt", "subject", "target_new", "ground_truth"}


def _by_object(rows: Sequence[EditedRow]) -> Templates:
    """For each true object, the templates of the prompts that ask for it."""
    wordings: dict[str, set[Template]] = defaultdict(set)
    for _, [edit] in rows:
        if template := around(edit.query, edit.subject or ""):
            wordings[edit.target_true or ""].add(template)
    return wordings


def _screened(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    text, edit = row.text("rephrase_prompt"), edits[0]
    start = form.known_end(text, edit.subject or "", (known or {}).get(edit.target_true or "", ()))
    if start is None or not form.begins(text, start):
        log.dropped["paraphrase", "rephrase_prompt is not a known wording of the question"].append(
            row
        )
    else:
        log.cuts.append(
            Cut(text, text[start:], "template" if start else "unchanged", suspicious=False)
        )
        yield form.paraphrase(edit, text[start:])
    yield form.neighbour(edit, row.text("locality_prompt"), row.text("locality_ground_truth"))


def _as_published(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    yield form.paraphrase(edits[0], row.text("rephrase_prompt"))
    yield form.neighbour(edits[0], row.text("locality_prompt"), row.text("locality_ground_truth"))


# zsRE in MEND's form (Levy et al. 2017; Mitchell et al. 2022): evaluation and training rows, and EasyEdit's copies. The
# neighbour is asked as ROME and MEMIT ask it, with "nq question: " and with a question mark. `pred` (the answer of
# MEND's own model), `cond` and `portability` are not read.


def _zsre_edits(row: Row, target: Target) -> list[Edit]:
    true = row.answer("answers")
    new, old = (row.text("alt"), true) if target == "alt" else (true, None)
    return [form.edit_about(row, "src", new, old)]


def _zsre(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    yield from (form.paraphrase(edits[0], text) for text in row.aliases("rephrase"))
    yield form.neighbour(edits[0], form.question(row.text("loc")), row.answer("loc_ans"))


# Temporal edits as published with IKE (Zheng et al. 2023; drawn from TempLAMA): facts that changed over the years. A
# group is a list of dated records of one cloze query, `[{query: "... _X_.", answer: [{name}], date, relation}, ..]`.

_MASK = "_X_"
_ENDINGS = {
    "P39": " holds the position of",
    "P54": " plays for",
    "P108": " works for",
}  # after the subject


def _temporal_id(row: Row) -> str | None:
    """Subject and relation, as in the ids of a group's records without their year; None where they have no ids."""
    first = row.objects(GROUP)[:1]
    return (
        first[0].text("id").rpartition("_")[0] or None
        if first and "id" in first[0].values
        else None
    )


def _temporal_edits(row: Row, target: Target) -> list[Edit]:
    records = sorted(row.objects(GROUP), key=lambda record: record.text("date"))
    if not records:
        raise row.wrong(GROUP, "must hold dated records")
    cloze = records[0].text("query")
    if any(record.text("query") != cloze for record in records):
        raise row.wrong(f"{GROUP}.query", "must be the same in all records of a group")
    query, mask, after = (part.strip() for part in cloze.partition(_MASK))
    if not mask or after not in ("", "."):
        raise row.wrong(f"{GROUP}.query", f"must end in its mask {_MASK}, it is {shown(cloze)!r}")
    relation = records[0].text("relation") if "relation" in records[0].values else None
    ending = _ENDINGS.get(relation or "")
    subject = query.removesuffix(ending) if ending and query.endswith(ending) else None
    answers = [record.objects("answer") for record in (records[-1], records[0])]
    new, old = (
        of_record[0].text("name") if of_record else "" for of_record in answers
    )  # a blank one drops the row
    return [Edit(query, new, old, subject, relation)]


# HalluEditBench (Huang et al. 2025): facts that a model got wrong, with questions of many kinds; a CSV file a topic.
# The edit leads from what the model said to the right answer. The question about another fact of the subject has no
# published answer.

_HOPS = re.compile(r"(?:question|answer)_(\d+)hop")
_OPTION = re.compile(r"(?:^|\s{2,})([A-Z])\. ")  # two spaces stand between options


def _halluedit_edits(row: Row, target: Target) -> list[Edit]:
    said = [name for name in row.values if name.startswith("output_")]
    if len(said) > 1:
        raise row.wrong(said[1], f"is a second model's answer beside {said[0]}")
    return [
        form.edit_about(row, "question", row.text("object"), row.text(said[0]) if said else None)
    ]


def _halluedit(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    edit = edits[0]
    yield form.paraphrase(edit, row.text("paraphrased_question"))
    yield yes_no(row.text("yes_question"), yes=True)
    yield yes_no(row.text("no_question"), yes=False)
    options, right = row.text("multiple_choice_with_letters"), row.text("multiple_choice_labels")
    _, *parts = _OPTION.split(options)
    by_letter = dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    if not by_letter.get(right):
        raise row.wrong(
            "multiple_choice_labels", f"must be the letter of an option, it is {shown(right)!r}"
        )
    yield choice(edit.query, options, right, by_letter[right])
    yield Probe(Aspect.REVERSE, row.text("reversed_relation_question"), edit.subject or "")
    yield BaselineQuestion(Aspect.SAME_SUBJECT, row.text("locality_question"))
    for hops in sorted({int(match[1]) for name in row.values if (match := _HOPS.fullmatch(name))}):
        yield Probe(
            Aspect.MULTI_HOP,
            row.text(f"question_{hops}hop"),
            row.text(f"answer_{hops}hop"),
            hops=hops,
        )


# QAEdit (Yang et al. 2025): natural questions with their answer, a rephrased one, and unrelated questions. The old
# object is what the model would have said, which is not published.


def _qaedit(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    yield form.paraphrase(edits[0], row.text("rephrase"))
    for asked in row.objects("locality"):
        yield form.neighbour(edits[0], form.question(asked.text("loc")), asked.text("loc_ans"))


SCREENED = Form(
    "EasyEdit's flat CounterFact (case_id, prompt, subject, target_new, ground_truth)",
    _is_flat, lambda row, target: [form.edit_about(row, "prompt", row.text("target_new"), row.text("ground_truth"))],
    _screened, learn=_by_object,
)  # fmt: skip
AS_PUBLISHED = Form(
    "EasyEdit's flat form, paraphrases as published (prompt, subject, target_new, ground_truth, rephrase_prompt)",
    _is_flat, SCREENED.edits, _as_published,
)  # fmt: skip
# In the order in which they are tried.
FORMS = (
    Form(
        "CounterFact as published (requested_rewrite, paraphrase_prompts, neighborhood_prompts)",
        lambda row: isinstance(row.values.get("requested_rewrite"), dict),
        lambda row, target: [_edit_at(row, "requested_rewrite")], _counterfact, Row.case_id,
        learn=lambda rows: form.learn((edit, row.texts("paraphrase_prompts")) for row, [edit] in rows),
    ),
    Form(
        "the multi-hop form of MQuAKE and RippleEdits (requested_rewrite as a list, questions, new_answer)",
        lambda row: isinstance(row.values.get("requested_rewrite"), list),
        _multihop_edits, _multihop, Row.case_id,
    ),
    Form(
        "KnowEdit's form (prompt, target_new, ground_truth, locality, portability)",
        _is_knowedit, _knowedit_edits, _knowedit, answers=partial(_texts_if_any, field="ground_truth"),
    ),
    SCREENED,
    AS_PUBLISHED,
    Form(
        "zsRE in MEND's form (src, rephrase, alt, answers, loc, loc_ans)",
        lambda row: row.values.keys() >= {"subject", "src", "answers"},
        _zsre_edits, _zsre, answers=lambda row: row.aliases("answers"),
    ),
    Form(
        "temporal edits as published with IKE (groups of query, answer, date)",
        lambda row: isinstance(records := row.values.get(GROUP), list)
        and any(isinstance(record, dict) and record.keys() >= {"query", "answer", "date"} for record in records[:1]),
        _temporal_edits, case_id=_temporal_id,
    ),
    Form(
        "HalluEditBench (CSV: subject, object, question, paraphrased_question, locality_question, question_2hop, ...)",
        lambda row: row.values.keys() >= {"subject", "object", "question", "paraphrased_question"},
        _halluedit_edits, _halluedit,
    ),
    Form(
        "QAEdit (prompt, target, subject, rephrase, locality)",
        lambda row: row.values.keys() >= {"prompt", "target", "rephrase", "locality"},
        lambda row, target: [form.edit_about(row, "prompt", row.text("target"), None)], _qaedit,
    ),
    own.FORM,
)  # fmt: skip


def flat_form(rows: Sequence[Row], paraphrases: Paraphrases | None) -> Form:
    """The form of a file of EasyEdit's flat shape. By default only CounterFact's paraphrases are screened."""
    # CounterFact's neighbours have the row's own old object in all rows.
    shared = all(
        row.values.get("locality_ground_truth") == row.values.get("ground_truth") for row in rows
    )
    return SCREENED if paraphrases == "screen" or (paraphrases is None and shared) else AS_PUBLISHED

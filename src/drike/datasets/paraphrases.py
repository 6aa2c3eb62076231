"""Clean paraphrases: CounterFact's begin with an unrelated sentence, and only their end asks the question.

A relation has few wordings. They are learned from the data set itself: every prompt, and every text around a subject
that recurs with another subject of the relation. A paraphrase keeps its longest end that is such a wording; otherwise
it is cut after the last sentence end before the subject, or at the subject if only markup precedes it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from drike.datasets.rows import Cut, How
from drike.edits import Edit

Template = tuple[str, str]  # the text before the subject, the text after it
Templates = Mapping[str, Collection[Template]]  # by relation

_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+|\n\s*")
_MARKUP = re.compile(r"Category:|References|External links|https?:|[|{}<>=]")
_WORD = re.compile(r"\w")
_LONG_HEAD = 8  # words: CounterFact's longest wording has seven ahead of the subject


def around(text: str, subject: str) -> Template | None:
    """The text before and after the last mention of `subject`, whole words preferred; None if not mentioned."""
    if not subject:
        return None
    size = len(subject)
    last = at = text.rfind(subject)
    while at >= 0 and (_WORD.fullmatch(text[at - 1 : at]) or _WORD.fullmatch(text[at + size : at + size + 1])):
        at = text.rfind(subject, 0, at + size - 1)
    at = last if at < 0 else at
    return None if at < 0 else (text[:at], text[at + size :])


def query_template(query: str, subject: str) -> str | None:
    """The query with {} for its subject: the relation of a data set that names none."""
    template = around(query, subject)
    return "{}".join(template) if template else None


def sentence_start(text: str) -> int:
    """Where the last, unfinished sentence of `text` begins."""
    return max((match.end() for match in _SENTENCE_END.finditer(text)), default=0)


def begins(text: str, start: int) -> bool:
    """Whether something new begins at `start`: it follows nothing, a sentence end or markup."""
    before = text[:start]
    gap = before[sentence_start(before) :]
    return gap == "" or bool(_MARKUP.search(gap))


def learn(published: Iterable[tuple[Edit, Iterable[str]]]) -> Templates:
    """The templates of every relation: all prompts, and what recurs around at least two different subjects."""
    subjects: dict[str, dict[Template, set[str]]] = defaultdict(lambda: defaultdict(set))
    known: dict[str, set[Template]] = defaultdict(set)
    for edit, texts in published:
        relation, subject = edit.relation or "", edit.subject or ""
        if prompt := around(edit.query, subject):
            known[relation].add(prompt)
        for template in filter(None, (around(text, subject) for text in texts)):
            before, after = template
            # Both the text as it stands (clean files) and its last sentence (published CounterFact).
            subjects[relation][template].add(subject)
            subjects[relation][before[sentence_start(before) :], after].add(subject)
    for relation, seen in subjects.items():
        known[relation] |= {template for template in seen if _is_wording(template, seen)}
    return known


def _is_wording(template: Template, seen: Mapping[Template, set[str]]) -> bool:
    """Whether a text around subjects is a way of asking: it recurs, and does not begin with a stock sentence.

    Stock sentences recur in CounterFact too, but with few of the subjects that the question is asked about.
    """
    before, after = template
    start = sentence_start(before)
    question = before[start:], after
    if len(seen[template]) < 2 or _MARKUP.search(before):
        return False
    return start == 0 or len(seen[template]) * 3 >= len(seen[question])


def known_end(text: str, subject: str, templates: Iterable[Template]) -> int | None:
    """Where the longest end of `text` that is one of `templates` about `subject` begins; None without one."""
    starts = []
    for before, after in templates:
        end = before + subject + after
        start = len(text) - len(end)
        # A subject must not be found inside a longer word.
        if text.endswith(end) and (start == 0 or not text[start - 1].isalnum()):
            starts.append(start)
    return min(starts, default=None)


def clean(text: str, subject: str, templates: Iterable[Template]) -> Cut:
    """Cut the unrelated start off a paraphrase; `templates` are those of its relation."""
    start = known_end(text, subject, templates)
    if start is not None:
        # Not after a sentence or markup: an unknown wording may have been cut down to a shorter, known one.
        return Cut(text, text[start:], "template" if start else "unchanged", suspicious=not begins(text, start))
    parts = around(text, subject)
    if parts is None:
        return Cut(text, text, "unchanged", suspicious=True)
    before, after = parts
    start = sentence_start(before)
    how: How = "sentence" if start else "unchanged"
    if _MARKUP.search(before[start:]):
        start, how = len(before), "subject"
    head = before[start:]
    # A cut at the subject may lose the question's first words, one at a sentence end may leave too many.
    guessed = how == "subject" or (how == "sentence" and head != "")
    first = head.lstrip()[:1]  # of what may be a remnant of something else
    odd = len(head.split()) > _LONG_HEAD or (first != "" and not first.isalpha()) or "\n" in head
    return Cut(text, text[start:], how, suspicious=guessed or odd or not after.strip())

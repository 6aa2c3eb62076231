"""Cutting the unrelated start off CounterFact's published paraphrases.

They begin with an unrelated sentence, and only their end asks the question. A paraphrase is cut to
its longest end that is a known wording of the relation: every prompt is one, and every text around
a subject that recurs with another subject. Else it is cut after the last sentence end before the
subject, or at the subject if only markup precedes it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from drike.edits.edit import Edit
from drike.research.datasets.read_log import Cut, How
from drike.text.templates import Template, around

Templates = Mapping[str, Collection[Template]]  # by relation

_SENTENCE_END = re.compile(
    r"""
    [.!?…] ["'”’»)\]]* \s+      # and closing quotes and brackets
    | [。！？] [”’」』）]* \s*    # after which Chinese and Japanese need no space
    | \n \s*
    """,
    re.VERBOSE,
)
_MARKUP = re.compile(r"Category:|References|External links|https?:|[|{}<>=]")
_LONG_HEAD = 8  # words: CounterFact's longest wording has seven ahead of the subject


def sentence_start(text: str) -> int:
    """Where the last, unfinished sentence of a text begins."""
    return max((match.end() for match in _SENTENCE_END.finditer(text)), default=0)


def begins(text: str, start: int) -> bool:
    """Whether something new begins at `start`: it follows nothing, a sentence end or markup."""
    before = text[:start]
    gap = before[sentence_start(before) :]
    return gap == "" or _MARKUP.search(gap) is not None


def learn(published: Iterable[tuple[Edit, Iterable[str]]]) -> Templates:
    """The wordings of every relation, from each edit with its paraphrases.

    They are all prompts, and what recurs around at least two different subjects.
    """
    wordings: dict[str, set[Template]] = defaultdict(set)
    subjects: dict[str, dict[Template, set[str]]] = defaultdict(lambda: defaultdict(set))
    for edit, paraphrases in published:
        relation = edit.relation or ""
        subject = edit.subject or ""
        prompt = around(edit.query, subject)
        if prompt is not None:
            wordings[relation].add(prompt)
        for template in _templates_in(paraphrases, subject):
            subjects[relation][template].add(subject)

    for relation, subjects_by_template in subjects.items():
        wordings[relation] |= {
            template
            for template in subjects_by_template
            if _is_wording(template, subjects_by_template)
        }
    return wordings


def _templates_in(paraphrases: Iterable[str], subject: str) -> Iterator[Template]:
    """What stands around the subject: in the whole text (clean files), and in its last sentence."""
    for text in paraphrases:
        template = around(text, subject)
        if template is not None:
            before, after = template
            yield before, after
            yield before[sentence_start(before) :], after


def _is_wording(template: Template, subjects_by_template: Mapping[Template, set[str]]) -> bool:
    """Whether a text around subjects is a way of asking.

    It is one if it recurs, and does not begin with a stock sentence.
    """
    before, after = template
    subjects = subjects_by_template[template]
    if len(subjects) < 2 or _MARKUP.search(before):
        return False

    start = sentence_start(before)
    if start == 0:
        return True
    # Stock sentences recur in CounterFact, too, but with few of the subjects that the question
    # itself is asked about.
    subjects_of_question = subjects_by_template[before[start:], after]
    return len(subjects) * 3 >= len(subjects_of_question)


def known_end(text: str, subject: str, templates: Iterable[Template]) -> int | None:
    """Where the longest end of a text begins that is one of the templates about the subject.

    None if it has no such end.
    """
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
        # In the middle of a sentence, an unknown wording may have been cut to a shorter, known one.
        return Cut(
            before=text,
            after=text[start:],
            how="template" if start > 0 else "unchanged",
            suspicious=not begins(text, start),
        )
    template = around(text, subject)
    if template is None:
        return Cut(text, text, "unchanged", suspicious=True)
    return _guessed_cut(text, *template)


def _guessed_cut(text: str, before: str, after: str) -> Cut:
    """The cut of a text whose wording is unknown; before, after: around its subject."""
    start = sentence_start(before)
    how: How = "sentence" if start > 0 else "unchanged"
    if _MARKUP.search(before[start:]):
        start = len(before)
        how = "subject"
    head = before[start:]  # of the question, ahead of its subject

    # A cut at the subject may lose the question's first words, and one at a sentence end may leave
    # too many.
    is_guess = how == "subject" or (how == "sentence" and head != "")
    first_character = head.lstrip()[:1]
    may_be_remnant = first_character != "" and not first_character.isalpha()
    is_odd = len(head.split()) > _LONG_HEAD or may_be_remnant or "\n" in head
    suspicious = is_guess or is_odd or not after.strip()
    return Cut(text, text[start:], how, suspicious)

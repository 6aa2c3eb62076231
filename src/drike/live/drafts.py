"""What becomes of reports of wrong answers: groups of those about the same, and drafts of edits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import regex

from drike.answers.matching import normalise
from drike.edits.record import EditRecord, EditVersion, RecordError, Status, checked
from drike.errors import DrikeError
from drike.gates.index import EditIndex
from drike.models.protocols import LanguageModel
from drike.prompts import REWRITE
from drike.stores.edit_store import EditStore
from drike.stores.inbox import Inbox, Report, ReportState
from drike.text.short_forms import sections
from drike.text.words import mentions, words

MOST_SHOWN = 500  # reports that are grouped at once
_ALIKE, _NEAR = 0.5, 0.6  # shares of words, and cosines, from which on questions are about the same
_MOST_WORDS = 12  # of an object

_GREETING = regex.compile(r"(?i)^.*?\b(?=(what|who|whose|where|when|which|how)\b)")
_SHORT_IS = regex.compile(r"(?i)^(what|who|where|when)['\N{RIGHT SINGLE QUOTATION MARK}]s\b")
_STATEMENTS = [
    (regex.compile(question, regex.IGNORECASE), statement)
    for question, statement in (
        line.split(" -> ") for line in sections("text/asking.txt")["statements"]
    )
]
_QUOTED = regex.compile(r"[\"\u201c\u201e\u00ab](.+?)[\"\u201c\u201d\u00bb]")
_WORD = r"\p{Lu}[\p{L}\p{N}&.\-]*"
_NAME = regex.compile(rf"{_WORD}(?:\s+(?:(?:of|the|de|la|von|van|and|&)\s+)*(?:{_WORD}|\p{{N}}+))*")
_OFFICE = regex.compile(r"^\p{Lu}{2,4} of (?:the )?")  # CEO of
_LAST_NAME = regex.compile(r"(?i)\b(?:of|for|in|is|was)\s+(?:the\s+)?([\w' -]+?)$")
_INTRODUCTION = regex.compile(
    r"(?i)^(?:(?:no|wrong|sorry|actually|well|incorrect)\b[\s,.:;!-]*)*"
    r"(?:(?:it|that|this|the (?:right|correct) (?:answer|one))(?:\s+(?:is|was|are|should (?:be|say|have been))"
    r"|['\N{RIGHT SINGLE QUOTATION MARK}]s)\s+"
    r"|should (?:be|say|read|have been)\s+|(?:correct(?:ion)?(?: answer)?|answer|right)\s*:\s*)?(?:actually\s+)?"
)
_NOT = regex.compile(r"(?i)[\s,(;-]+(?:and\s+)?(?:not|instead of|rather than)\s+(?P<old>.+)$")
_NOT_BUT = regex.compile(r"(?i)^not\s+(?P<old>.+?),?\s+but\s+(?P<new>.+)$")
_SAYS = regex.compile(r"(?i)\b(?:is|was|are|were|by|equals)\s+")
_TOKENS = 1_000  # of what a model writes, with its thoughts
_OBJECT = regex.compile(r"\{[^{}]*\}\s*(?:```)?\s*$")  # of JSON, the last one
_ENDS = " \t\n.,;:!?\"'()*`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"


class DraftError(DrikeError):
    """No edit can be drafted from a report."""


@dataclass(frozen=True)
class ReportGroup:
    """Reports of the same, and the edit in use that they may be about."""

    edit: EditVersion | None
    reports: tuple[Report, ...]


def grouped(given: Sequence[Report], index: EditIndex) -> list[ReportGroup]:
    """Reports in groups, in their order, by the nearest edit and by their words. index: of the edits in use."""
    groups = list[tuple[EditVersion | None, frozenset[str], list[Report]]]()
    for report, edit in zip(
        given, nearest([report.question for report in given], index), strict=True
    ):
        asked = frozenset(words(report.question))
        for other, known, group in groups:
            if edit is other and len(asked & known) >= _ALIKE * len(asked | known):
                group.append(report)
                break
        else:
            groups.append((edit, asked, [report]))
    return [ReportGroup(edit, tuple(group)) for edit, _, group in groups]


def nearest(questions: Sequence[str], index: EditIndex) -> list[EditVersion | None]:
    """The edit that each question may be about: one whose subject it names, else of the nearest text."""
    found = list[EditVersion | None]()
    for question in questions:
        named, asked = (
            [index.edits[id] for id in sorted(index.named(question))],
            set(words(question)),
        )
        found.append(
            max(
                named,
                key=lambda edit: len(asked.intersection(words(edit.record.query))),
                default=None,
            )
        )
    rest = [place for place, edit in enumerate(found) if edit is None]
    if rest and index.encoder is not None and index.edits:
        for place, vector in zip(
            rest, index.embed([questions[place] for place in rest]), strict=True
        ):
            id, cosine = next(iter(index.nearest(vector).items()), (0, 0.0))
            found[place] = index.edits[id] if cosine >= _NEAR else None
    return found


def draft(
    store: EditStore, numbers: Sequence[int], index: EditIndex, *, author: str | None = None,
    model: LanguageModel | None = None,
) -> Sequence[EditVersion]:  # fmt: skip
    """Draft an edit from open reports of the same, and close them. Raises DraftError, StoreError, ModelError."""
    if not numbers:
        raise DraftError("no report is named: give the number of one")
    asked = [Inbox(store.database).report(number) for number in dict.fromkeys(numbers)]
    main = next((report for report in asked if report.correction), asked[0])
    found = fields_by(model, main) if model else {}
    with store.transaction():
        record = drafted(main, nearest([main.question], index)[0], found)
        more = [
            report.question
            for report in asked
            if any(mentions(report.question, name) for name in record.names)
        ]
        wordings = tuple(
            text for text in dict.fromkeys((*record.paraphrases, *more)) if text != record.query
        )
        changes = store.put(
            replace(record, paraphrases=wordings, author=author, reason=main.comment)
        )
        for report in asked:
            Inbox(store.database).close(report.number, author=author, edit=changes[-1].id)
    return changes


def fields_by(model: LanguageModel, report: Report) -> dict[str, str]:
    """The subject, query, new and old object that a model finds in a report; none that it made up."""
    parts = {
        name: getattr(report, name) for name in ("question", "answer", "correction", "comment")
    }
    text = "\n".join(f"{name.capitalize()}: {said}" for name, said in parts.items() if said)
    asked = (
        f"{REWRITE}as one JSON object. It reports a wrong answer. The keys: subject, the name that the question is "
        "about; query, the question as the beginning of a sentence that the right answer ends; new, the right answer, "
        f"in as few words as the text has it; old, the wrong one.\nText:\n{text}\nRewritten:\n"
    )
    [completion] = model.generate([asked], _TOKENS, None)
    try:
        values = (
            json.loads(match[0].rstrip("` \n"))
            if (match := _OBJECT.search(completion.text))
            else {}
        )
    except ValueError:
        values = {}
    found = {name: said.strip(_ENDS) for name, said in values.items() if isinstance(said, str)}
    right = f"{report.correction or ''}\n{report.comment or ''}"
    places = {"subject": report.question, "new": right, "old": f"{report.answer}\n{right}"}
    good = {
        name: found[name]
        for name, place in places.items()
        if found.get(name) and mentions(place, found[name])
    }
    query, subject, new = (found.get("query", ""), good.get("subject", ""), good.get("new", ""))
    usable = subject and mentions(query, subject) and not (new and mentions(query, new))
    return good | ({"query": query} if usable else {})


def drafted(report: Report, edit: EditVersion | None, found: Mapping[str, str]) -> EditRecord:
    """The draft of an edit from a report, by rules but for what `fields_by` has found. Raises DraftError."""
    if report.state is ReportState.CLOSED:
        raise DraftError(f"report {report.number} is closed: choose an open one")
    known = (
        edit.record
        if edit and any(mentions(report.question, name) for name in edit.record.names)
        else None
    )
    query = found.get("query") or statement_of(report.question)
    if not (
        name := known.subject if known else found.get("subject") or subject_of(report.question)
    ):
        raise DraftError(
            f"report {report.number} names no subject: add the edit by hand (drike edits add)"
        )
    new, old = objects_of(report.correction or "", report.answer, query)
    new, old = (
        found.get("new", new),
        found.get("old", None if old and mentions(old, name) else old),
    )  # a sentence
    if not new:
        raise DraftError(
            f"report {report.number} does not say what is right: add the edit by hand (drike edits add)"
        )
    wordings = (report.question,) if normalise(report.question) != normalise(query) else ()
    source = f"report {report.number}"
    record = EditRecord(
        name, query, new, old, paraphrases=wordings, status=Status.DRAFT, source=source
    )
    try:
        return checked(replace(record, aliases=known.aliases if known else ()))
    except RecordError as problem:
        raise DraftError(
            f"report {report.number} gives no usable edit ({problem}): add it by hand"
        ) from None


def statement_of(question: str) -> str:
    """A question in a common form as a statement without its end: "The capital of Peru is", else the question."""
    asked = _SHORT_IS.sub(r"\1 is", _asked(question))
    text = next(
        (
            said.format(**m.groupdict())
            for form, said in _STATEMENTS
            if (m := form.fullmatch(asked))
        ),
        "",
    )
    return f"{text[0].upper()}{text[1:]}" if text else question.strip()


def _asked(question: str) -> str:
    return str(_GREETING.sub("", question.strip(), count=1).rstrip("?!. \n"))


def subject_of(question: str) -> str:
    """What a question is about: the name in quotation marks, else the longest with capitals, else its last words."""
    asked = _asked(question)
    if quoted := _QUOTED.search(asked):
        return str(quoted[1])
    if names := [
        _OFFICE.sub("", name).rstrip(".-") for name in _NAME.findall(asked.partition(" ")[2])
    ]:
        return str(max(names, key=len))
    return str(last[1]) if (last := _LAST_NAME.search(asked)) else ""


def objects_of(correction: str, answer: str, query: str) -> tuple[str, str | None]:
    """The new object that a correction gives, "" for none, and the old one, of it or of the wrong answer."""
    text, old = _INTRODUCTION.sub("", correction.strip(), count=1).strip(), ""
    if either := _NOT_BUT.match(text):
        text, old = either["new"], either["old"]
    elif negated := _NOT.search(text):
        text, old = text[: negated.start()], negated["old"]
    new, old = _object(text, query), _object(old or answer, query)
    return new, old if old and normalise(old) != normalise(new) else None


def _object(text: str, query: str) -> str:
    """What a short answer, or the first sentence of a longer one, gives as the object."""
    first = regex.split(r"(?<=[^\W\d]{3}[.!?])\s|\n", text.strip(), maxsplit=1)[0].strip(_ENDS)
    if first.casefold().startswith(query.casefold()):
        first = first[len(query) :]
    elif (said := _SAYS.search(first)) and set(words(first[: said.start()])) & set(words(query)):
        first = first[said.end() :]
    first = first.strip(_ENDS)
    return first if 0 < len(words(first)) <= _MOST_WORDS else ""

"""Edits, the probes that test them, and benchmark cases (paper, section 3)."""

from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum

Key = tuple[str, str]  # identifies a new fact in any file: its query and its new object


class Aspect(StrEnum):
    """What a probe tests: the edited fact, unless the comment says otherwise."""

    REWRITE = "rewrite"  # the edit's own query
    PARAPHRASE = "paraphrase"  # the same question in other words
    NEIGHBORHOOD = "neighborhood"  # a fact about another subject, which must not change
    SAME_SUBJECT = "same_subject"  # another fact about the edited subject, which must not change
    ALIAS = "alias"  # the subject under another name
    YES_NO = "yes_no"  # answered with yes or no
    CHOICE = "choice"  # answered with one of several options
    REVERSE = "reverse"  # asks for the subject
    MULTI_HOP = "multi_hop"  # a fact that follows from the edit and other facts
    PUSHBACK = "pushback"  # after challenges of the first answers
    DISTRACTOR = "distractor"  # after a misleading sentence


# The paper's; training uses only them.
ASPECTS_OF_S = (Aspect.REWRITE, Aspect.PARAPHRASE, Aspect.NEIGHBORHOOD)
# These ask for facts that the edit must not change.
STABLE = (Aspect.NEIGHBORHOOD, Aspect.SAME_SUBJECT)


@dataclass(frozen=True)
class Edit:
    """A fact that the model is to state instead of what it knows.

    It is `query`, completed with `target_new`.

    query: the text right before the object, such as "The capital of Peru is". target_new,
    target_true: the new and the old object, without a leading space. subject, relation: what the
    fact is about, if that is known.
    """

    query: str
    target_new: str
    target_true: str | None = None
    subject: str | None = None
    relation: str | None = None

    @property
    def fact(self) -> str:
        """The new fact as a sentence without a full stop."""
        return f"{self.query} {self.target_new}"

    @property
    def key(self) -> Key:
        """Identifies the new fact in any file."""
        return self.query, self.target_new


@dataclass(frozen=True)
class Probe:
    """A question about a case: the model should complete `query` with `target`.

    It should not complete it with `distractor`.

    also: other right answers, such as aliases of the target. challenges: further turns of the user,
    each after an answer of the model ("Are you sure?"); the last answer is judged. hops: of a
    multi_hop probe; None if not known.
    """

    aspect: Aspect
    query: str
    target: str
    distractor: str | None = None
    also: tuple[str, ...] = ()
    challenges: tuple[str, ...] = ()
    hops: int | None = None

    @property
    def asked(self) -> str:
        """The query and all challenges, one on a line, as outcomes record them."""
        return "\n".join((self.query, *self.challenges))


@dataclass(frozen=True)
class BaselineQuestion:
    """A question that the unedited model answers first; its answer makes the question a probe.

    choices: the answers that show that the model knows the fact, without which the question is
    dropped; empty accepts all. target: the right answer under the edit; None if the model's own
    answer stays right.
    """

    aspect: Aspect
    query: str
    choices: tuple[str, ...] = ()
    target: str | None = None


@dataclass(frozen=True)
class EditCase:
    """A row of a benchmark: an edit and the probes that test it.

    Raises ValueError for a probe in the wrong list.

    probes: of the aspects in S, the rewrite probe first; training uses only these. further: of
    other aspects, for evaluation alone, as baseline_questions are once the unedited model has
    answered them. other_edits: in force, too.
    """

    case_id: str
    edit: Edit
    probes: tuple[Probe, ...]
    further: tuple[Probe, ...] = ()
    baseline_questions: tuple[BaselineQuestion, ...] = ()
    other_edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        misplaced = [probe for probe in self.probes if probe.aspect not in ASPECTS_OF_S]
        misplaced += [probe for probe in self.further if probe.aspect in ASPECTS_OF_S]
        if misplaced:
            aspect = misplaced[0].aspect
            right_list = "probes" if aspect in ASPECTS_OF_S else "further"
            raise ValueError(f"case {self.case_id}: put its {aspect} probes into `{right_list}`")

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits that are in force when the probes are asked."""
        return (self.edit, *self.other_edits)

    @property
    def asked(self) -> tuple[Probe, ...]:
        """All probes, in the order in which evaluation asks them."""
        return (*self.probes, *self.further)

    @property
    def paraphrases(self) -> tuple[Probe, ...]:
        """The probes with this aspect."""
        return tuple(probe for probe in self.probes if probe.aspect is Aspect.PARAPHRASE)

    @property
    def neighborhood(self) -> tuple[Probe, ...]:
        """The probes with this aspect, whose targets are their old objects."""
        return tuple(probe for probe in self.probes if probe.aspect is Aspect.NEIGHBORHOOD)


def trained_on(*parts: object) -> frozenset[Key]:
    """Keys of the edits that any of the parts was trained on.

    A part says so by its `trained_on`, or else its fields do.
    """
    keys = frozenset[Key]()
    for part in parts:
        if hasattr(part, "trained_on"):
            keys |= part.trained_on
        elif is_dataclass(part):
            keys |= trained_on(*(getattr(part, field.name, None) for field in fields(part)))
    return keys


def rewrite_probe(edit: Edit) -> Probe:
    """The probe of the edit's own query."""
    return Probe(Aspect.REWRITE, edit.query, edit.target_new, edit.target_true)

"""How a run is trained: the options of a training, and the untrained editor that they describe."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drike.edits.edit import EditCase, Probe, rewrite_probe
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.prompts import Layout, PromptStyle, RetainForm
from drike.research.editors.budgets import Flip, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.retriever import Form, Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.judge import LIKELIHOOD, RULES, Rule, RuleName
from drike.research.evaluation.unedited_answers import Retention
from drike.research.runs.setup import Setup


@dataclass(frozen=True)
class Method:
    """How a run is trained.

    The fields are options of `drike train`, and keys of run.json and of the checkpoint.
    """

    objective: Literal["paper", "s", "balanced"] = "paper"
    retention: Literal["all", "known", "unchanged"] | None = None
    shot_price: float = 0.05
    promise: str | None = None
    calibrate_on: int | None = None
    epochs: int = 5
    budget: Literal["threshold", "all", "half"] = "threshold"
    max_shots: int = 16
    learning_rate: float = 1e-4
    encoder: str | None = None
    policy_encoder: str | None = None
    parallel_edits: int = 1
    form: Form = "dot"
    flip: Flip = "offender"
    layout: Layout = "append"
    retain: RetainForm = "headed"
    own_copy: bool = True
    judge: RuleName | None = None

    @property
    def is_per_query(self) -> bool:
        """Whether a policy per query is trained on S, too; "balanced" is an old name of "s"."""
        return self.objective != "paper"

    @property
    def reading(self) -> Retention:
        """The reading of retention that a policy per query is trained on.

        By default the unedited model's own answers: where it knows few neighbours, RR over all
        weighs so much in S that the policy pays ESR and PC for what retains tell about neighbours.
        By likelihood all neighbours are compared with their distractors, whether known or not.
        Raises UsageError for own answers by likelihood.
        """
        compares = self.rule is not None and self.rule.compares
        if self.retention is None:
            return Retention.ALL if compares else Retention.UNCHANGED
        if compares and self.retention == "unchanged":
            raise UsageError(
                "`retention` unchanged compares what the model writes, and the rule likelihood "
                "what it prefers: judge by greedy or generate, or choose all or known"
            )
        return Retention(self.retention)

    @property
    def style(self) -> PromptStyle:
        """The style of the prompts."""
        return PromptStyle(self.layout, self.own_copy, self.retain)

    @property
    def rule(self) -> Rule | None:
        """The rule by which answers are right; None for the model's default."""
        return RULES[self.judge] if self.judge else None


def new_editor(
    method: Method, setup: Setup, encoder: TextEncoder, *, limit: TokenLimit | None = None
) -> InContextEditor[RankAndCut]:
    """An untrained DR-IKE.

    encoder: under the head, which the seed of the setup draws. limit: on the prompts.
    """
    retriever = Retriever(encoder, form=method.form, seed=setup.pool.seed)
    budget: Threshold | Fraction
    if method.budget == "threshold":
        budget = Threshold(0.0, method.max_shots, method.flip)
    else:
        share = 1.0 if method.budget == "all" else 0.5
        budget = Fraction(share, method.max_shots)
    selector = RankAndCut(retriever, budget)
    return InContextEditor("DR-IKE", setup.pool, selector, method.style, limit)


def scored_probes(method: Method, case: EditCase) -> list[Probe]:
    """What the reward asks of a case under each prefix.

    Where the rule compares, the distractor is asked for, too.
    """
    probe = rewrite_probe(case.edit)
    if method.judge != LIKELIHOOD.name or probe.distractor is None:
        return [probe]
    return [probe, replace(probe, target=probe.distractor)]


def require_within_limit(
    editor: InContextEditor[RankAndCut], method: Method, cases: Sequence[EditCase]
) -> None:
    """Raise UsageError if prompts are longer than the limit even with a single retain."""
    if editor.limit is None:
        return
    longest = 0
    for case in cases:
        queries = [probe.query for probe in scored_probes(method, case)]
        selection = editor.select(case.edits, queries)[0]
        with_one_retain = selection.without_last(selection.prunable - 1)
        prompts = editor.show(with_one_retain, queries)
        longest = max(longest, *editor.limit.count([prompt.text for prompt in prompts]))
    if longest > editor.limit.tokens:
        raise UsageError(
            f"`prompt_tokens` {editor.limit.tokens} cannot be kept, since only retains are "
            f"dropped, and with copies, updates and one retain prompts have up to {longest:,} "
            "tokens: allow that many, or give shorter records"
        )

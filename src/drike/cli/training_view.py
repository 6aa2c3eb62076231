"""What `drike train` and `drike demo` show of a training while it runs."""

from collections.abc import Sequence
from pathlib import Path

from drike.cli import runs
from drike.cli.console import console, draw, note, say
from drike.cli.models import OpenedModel
from drike.edits.edit import ASPECTS_OF_S
from drike.models import LanguageModel, Usage
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.risk_control import CertifiedGuarantee, Guarantee
from drike.research.report import tables
from drike.research.report.training_tables import by_epoch
from drike.research.runs.evaluation_run import NEIGHBOURS_ASKED
from drike.research.runs.events import PhaseStarted, Prepared
from drike.research.runs.method import Method
from drike.research.runs.query_policy_run import QueryPolicyEvent, run_query_policy
from drike.research.runs.setup import Setup
from drike.research.runs.training_run import TrainingEvent, recovered_episodes, run_training
from drike.research.runs.usage import read_usage
from drike.research.training.algorithm1 import Episode
from drike.research.training.s_objective import Expected
from drike.support.table import as_text, counted

_COLUMNS = (
    f"{'epoch':>5} {'ESR':>6} {'mean k':>7} {'sigma':>7} {'tokens':>10} {'calls':>7} {'seconds':>8}"
)


def watch_training(
    folder: Path,
    setup: Setup,
    opened: OpenedModel,
    editor: InContextEditor[RankAndCut],
    method: Method,
) -> None:
    """Train to the end.

    Shows the running epoch as a bar, every finished one as a line, and the model's work.
    """
    ranker = editor.selector.ranker
    assert isinstance(ranker, Retriever)  # noqa: S101 - only these are trained
    cases = len(setup.split.train)
    epoch: list[Episode] = []

    def show(event: TrainingEvent) -> str | None:
        match event:
            case Prepared():
                head = (
                    f"{ranker.form} over {ranker.encoder.name} ({ranker.parameters:,} parameters)"
                )
                data = f"{counted(cases, 'edit')} of {setup.split.ids.title}"
                epochs = counted(method.epochs, "epoch")
                name = opened.model.info.name
                say(f"Training on {data}, {epochs}, model {name}, head {head}")
                show_prepared(event, "episodes")
            case PhaseStarted():
                console.print(_COLUMNS, style="bold")
            case Episode():
                if len(epoch) == cases:  # the next epoch begins
                    epoch.clear()
                epoch.append(event)
                return _epoch_so_far(epoch, finished=len(epoch) == cases)
        return None

    events = run_training(
        folder,
        setup,
        opened.model,
        editor,
        method,
        described=opened.described,
        past=recovered_episodes(folder),
    )
    try:
        runs.watch(events, show, opened.model)
    finally:
        used = read_usage(folder).get("training", Usage())
        if used.tokens:
            draw(tables.work({"training": used}))


def _epoch_so_far(episodes: Sequence[Episode], *, finished: bool) -> str:
    """The figures of the running epoch; those of a finished one are also printed as a line."""
    [epoch] = by_epoch(episodes)
    esr = f"{epoch.esr:.3f}"
    mean_k = f"{epoch.mean_k:.2f}"
    sigma = as_text(epoch.threshold)
    tokens = "n/a" if epoch.prompt_tokens is None else f"{epoch.prompt_tokens:,}"
    calls = f"{epoch.calls:,}"
    if finished:
        console.print(
            f"{epoch.epoch:>5} {esr:>6} {mean_k:>7} {sigma:>7} {tokens:>10} {calls:>7} "
            f"{epoch.seconds:>8.1f}"
        )
    cut = f"sigma {sigma}" if epoch.share is None else f"share {sigma}"
    return f"epoch {epoch.epoch}  ESR {esr}  k {mean_k}  {cut}  tokens {tokens}  calls {calls}"


def watch_query_policy(
    folder: Path,
    setup: Setup,
    model: LanguageModel,
    editor: InContextEditor[RankAndCut],
    method: Method,
    *,
    guarantee: Guarantee | None = None,
) -> None:
    """Train the policy that decides for each query, and show what comes of it.

    Raises GuaranteeError.
    """
    events = run_query_policy(folder, setup, model, editor, method, guarantee=guarantee)
    runs.watch(events, _show_query_policy, model)


def _show_query_policy(event: QueryPolicyEvent) -> None:
    match event:
        case PhaseStarted():
            edits = f"{event.total} edits"
            if event.name == NEIGHBOURS_ASKED:
                say(f"\nAsking the unedited model about the neighbours of {edits}")
            else:
                say(f"\nAsking every probe of {edits} alone and under each mix, for DR-IKE-Q")
            if event.done:
                say(f"Recovered {event.done} of {edits}")
        case Expected():
            absent = [aspect.value for aspect in ASPECTS_OF_S if aspect not in event.means]
            if absent:
                kinds = " or a ".join(absent)
                note(f"no training edit has a {kinds} probe, so the policy learns from none")
            means = ", ".join(f"{aspect.value} {mean:.3f}" for aspect, mean in event.means.items())
            tokens = f"{event.tokens:.0%} of the tokens of all demonstrations"
            say(f"Expected on these edits: S {event.score:.3f} ({means}) with {tokens}")
        case CertifiedGuarantee():
            measured = f"measured there: {event.measured:.3f}, shift {event.offset:g}"
            say(f"Guaranteed: {event.sentence} ({measured})")


def show_prepared(event: Prepared, unit: str) -> None:
    """Print how much of a stopped run is recovered, and the notes on the demonstrations."""
    if event.recovered:
        say(f"Recovered {event.recovered} of {event.total} {unit}")
    for sentence in event.notes:
        say(sentence, "dim")

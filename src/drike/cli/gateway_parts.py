"""Builds what a gateway needs of the research bench: its editor, and placements of facts."""

from pathlib import Path

from drike.encoders import load_encoder
from drike.gateway.parts import GatewayParts, OpenedEditor
from drike.research.editors.catalog import PER_QUERY, make
from drike.research.editors.placements import REMEMBERED, demonstrating, placements
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import applied, policy_of


def gateway_parts() -> GatewayParts:
    """The parts of a gateway; nothing is opened yet."""
    return GatewayParts(open_editor, placements)


def open_editor(run_folder: str | None, max_demonstrations: int | None) -> OpenedEditor:
    """The editor of a training run's folder, or the nearest rows of TinyFacts.

    Raises DrikeError.
    """
    if run_folder is None:
        return OpenedEditor(demonstrating(max_demonstrations))
    return _trained_editor(Path(run_folder))


def _trained_editor(folder: Path) -> OpenedEditor:
    """What a training run learned, with the pool of the demonstrations that it learned with."""
    from drike.research.runs import checkpoint
    from drike.research.runs.run import TrainedRun

    base = TrainedRun.open(folder)
    # The policy reads what users write, of which nothing is kept.
    policy_encoder = load_encoder(base.trained.retriever.encoder.name, keep=False)
    trained = checkpoint.load(folder, encoder=policy_encoder)

    demonstrations = base.run.dataset().restore(base.split).demonstrations
    pool_encoder = load_encoder(base.run.encoder)
    pool = Pool(demonstrations, pool_encoder, seed=base.run.seed, remembered=REMEMBERED)

    name = PER_QUERY if trained.per_query else "dr-ike"
    editor = applied(make(name, pool=pool, trained=trained))
    policy = policy_of(editor)
    return OpenedEditor(editor, policy.gate if policy else None)

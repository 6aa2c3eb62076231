"""drike: in-context knowledge editing for language models whose weights you cannot touch.

The public names, spelled out. Importing this does nothing: a name is fetched from its module when it is first used, so
that neither torch nor transformers is loaded before a model or a retriever is wanted.
"""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drike.casestudy import CaseStudy, study
    from drike.datasets import load as load_dataset
    from drike.demonstrations import Demonstration, Role
    from drike.edited import EditedModel, Explanation
    from drike.editors.editcot import EditCoT, EditCoTFull
    from drike.editors.factprompt import FactPrompt
    from drike.editors.ike import IKE
    from drike.editors.unedited import Unedited
    from drike.edits import Aspect, Edit, EditCase, Probe
    from drike.encoders import load_encoder
    from drike.evaluation import evaluate
    from drike.metrics import Outcome, Summary, paired_difference, summarise
    from drike.models import load as load_model
    from drike.models.protocols import Completion, LanguageModel, ModelInfo, Request, Score, Usage
    from drike.models.scripted import CustomModel, ScriptedModel
    from drike.models.served.options import ApiOptions
    from drike.prompts import PromptStyle
    from drike.retrieval.budget import Fraction, Threshold
    from drike.retrieval.learned_budget import Controller
    from drike.retrieval.pool import Pool
    from drike.retrieval.retriever import Retriever, Similarity
    from drike.runs.checkpoint import Checkpoint
    from drike.runs.checkpoint import load as load_checkpoint
    from drike.runs.checkpoint import save as save_checkpoint
    from drike.tinyfacts.reader import BayesianReader
    from drike.training.reinforce import Episode, train
    from drike.training.rewards import edit_takes

_HOMES = {
    "drike.retrieval.budget": ("Fraction", "Threshold"),
    "drike.casestudy": ("CaseStudy", "study"),
    "drike.runs.checkpoint": ("Checkpoint", "load_checkpoint", "save_checkpoint"),
    "drike.retrieval.learned_budget": ("Controller",),
    "drike.datasets": ("load_dataset",),
    "drike.demonstrations": ("Demonstration", "Role"),
    "drike.edited": ("EditedModel", "Explanation"),
    "drike.editors.editcot": ("EditCoT", "EditCoTFull"),
    "drike.editors.factprompt": ("FactPrompt",),
    "drike.editors.ike": ("IKE",),
    "drike.editors.unedited": ("Unedited",),
    "drike.edits": ("Aspect", "Edit", "EditCase", "Probe"),
    "drike.encoders": ("load_encoder",),
    "drike.evaluation": ("evaluate",),
    "drike.metrics": ("Outcome", "Summary", "paired_difference", "summarise"),
    "drike.models.protocols": ("Completion", "LanguageModel", "ModelInfo", "Request", "Score", "Usage"),
    "drike.models": ("load_model",),
    "drike.models.served.options": ("ApiOptions",),
    "drike.tinyfacts.reader": ("BayesianReader",),
    "drike.models.scripted": ("CustomModel", "ScriptedModel"),
    "drike.prompts": ("PromptStyle",),
    "drike.retrieval.pool": ("Pool",),
    "drike.training.reinforce": ("Episode", "train"),
    "drike.training.rewards": ("edit_takes",),
    "drike.retrieval.retriever": ("Retriever", "Similarity"),
}
_CALLED = {
    "load_checkpoint": "load",
    "save_checkpoint": "save",
    "load_dataset": "load",
    "load_model": "load",
}  # public name -> name at home
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "IKE",
    "ApiOptions",
    "Aspect",
    "BayesianReader",
    "CaseStudy",
    "Checkpoint",
    "Completion",
    "Controller",
    "CustomModel",
    "Demonstration",
    "Edit",
    "EditCase",
    "EditCoT",
    "EditCoTFull",
    "EditedModel",
    "Episode",
    "Explanation",
    "FactPrompt",
    "Fraction",
    "LanguageModel",
    "ModelInfo",
    "Outcome",
    "Pool",
    "Probe",
    "PromptStyle",
    "Request",
    "Retriever",
    "Role",
    "Score",
    "ScriptedModel",
    "Similarity",
    "Summary",
    "Threshold",
    "Unedited",
    "Usage",
    "edit_takes",
    "evaluate",
    "load_checkpoint",
    "load_dataset",
    "load_encoder",
    "load_model",
    "paired_difference",
    "save_checkpoint",
    "study",
    "summarise",
    "train",
]


def __getattr__(name: str) -> Any:
    """Fetch a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module 'drike' has no attribute {name!r}")
    return getattr(_import(_HOME[name]), _CALLED.get(name, name))


def __dir__() -> list[str]:
    """The public names."""
    return __all__

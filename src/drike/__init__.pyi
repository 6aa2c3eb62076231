"""The public names of drike and where they live: the one list, from which `__init__.py` also fetches them."""

from drike import datasets as _datasets
from drike import models as _models
from drike.casestudy import CaseStudy as CaseStudy
from drike.casestudy import Effect as Effect
from drike.casestudy import Reply as Reply
from drike.casestudy import Retain as Retain
from drike.casestudy import Side as Side
from drike.casestudy import study as study
from drike.datasets.counts import Cleaning as Cleaning
from drike.datasets.counts import Cut as Cut
from drike.datasets.counts import Dropped as Dropped
from drike.datasets.dataset import Dataset as Dataset
from drike.datasets.dataset import Source as Source
from drike.datasets.splits import Split as Split
from drike.datasets.splits import SplitIds as SplitIds
from drike.demonstrations import Demonstration as Demonstration
from drike.demonstrations import DemonstrationSet as DemonstrationSet
from drike.demonstrations import Role as Role
from drike.edited import EditedModel as EditedModel
from drike.edited import Explanation as Explanation
from drike.editors import Editor as Editor
from drike.editors.editcot import EditCoT as EditCoT
from drike.editors.editcot import EditCoTFull as EditCoTFull
from drike.editors.factprompt import FactPrompt as FactPrompt
from drike.editors.ike import IKE as IKE
from drike.editors.ike import Selection as Selection
from drike.editors.unedited import Unedited as Unedited
from drike.edits import Aspect as Aspect
from drike.edits import Edit as Edit
from drike.edits import EditCase as EditCase
from drike.edits import Probe as Probe
from drike.encoders import TextEncoder as TextEncoder
from drike.encoders import load_encoder as load_encoder
from drike.errors import DrikeError as DrikeError
from drike.evaluation import evaluate as evaluate
from drike.metrics import Estimate as Estimate
from drike.metrics import Outcome as Outcome
from drike.metrics import Summary as Summary
from drike.metrics import paired_difference as paired_difference
from drike.metrics import summarise as summarise
from drike.models.custom import CustomModel as CustomModel
from drike.models.protocols import Completion as Completion
from drike.models.protocols import LanguageModel as LanguageModel
from drike.models.protocols import ModelInfo as ModelInfo
from drike.models.protocols import Request as Request
from drike.models.protocols import Score as Score
from drike.models.protocols import Usage as Usage
from drike.models.served.options import ApiOptions as ApiOptions
from drike.models.served.spending import Price as Price
from drike.prompts import Prompt as Prompt
from drike.prompts import PromptStyle as PromptStyle
from drike.retrieval.budget import Budget as Budget
from drike.retrieval.budget import Fraction as Fraction
from drike.retrieval.budget import Threshold as Threshold
from drike.retrieval.budget import TokenLimit as TokenLimit
from drike.retrieval.learned_budget import Controller as Controller
from drike.retrieval.learned_budget import Feature as Feature
from drike.retrieval.pool import Pool as Pool
from drike.retrieval.retriever import Ranker as Ranker
from drike.retrieval.retriever import Ranking as Ranking
from drike.retrieval.retriever import Retriever as Retriever
from drike.retrieval.retriever import Similarity as Similarity
from drike.runs import checkpoint as _checkpoint
from drike.runs.checkpoint import Checkpoint as Checkpoint
from drike.table import Table as Table
from drike.training.reinforce import Episode as Episode
from drike.training.reinforce import train as train
from drike.training.rewards import Attempt as Attempt
from drike.training.rewards import Earned as Earned
from drike.training.rewards import edit_takes as edit_takes

load_checkpoint = _checkpoint.load
load_dataset = _datasets.load
load_model = _models.load
save_checkpoint = _checkpoint.save

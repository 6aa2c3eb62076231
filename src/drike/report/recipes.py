"""The paper's tables and figures, how each is made again, and what that takes.

A study is one table or figure: what it compares, the recipe that repeats it (a shell file under recipes/), the models
and data the recipe asks for. Memory and hours are estimates by the arithmetic below, not
measurements; they are there to tell a coffee break from a weekend.

    memory   2 bytes a weight (bf16), and 4 GB for the float32 head, activations and the CUDA context
    tokens   a CounterFact demonstration takes some 26 tokens; beginnings that prompts share are read once:
             an episode with k retains 16 + 2.3 k blocks, an edit's 13 probes 16 + k + 13 blocks
    seconds  2 x weights x tokens / 40 % of the card's dense bf16 peak, twice for all that is not multiplication;
             text that is written costs the weights once a token from memory (EditCoT reasons in up to 128 tokens)
"""

from __future__ import annotations

from dataclasses import dataclass

WEIGHTS = {  # in billions
    "meta-llama/Llama-3.1-8B-Instruct": 8.0,
    "meta-llama/Llama-3.2-3B-Instruct": 3.2,
    "mistralai/Mistral-7B-Instruct-v0.2": 7.2,
    "Qwen/Qwen2.5-7B-Instruct": 7.6,
    "Qwen/Qwen2.5-1.5B": 1.5,
    "HuggingFaceTB/SmolLM2-1.7B": 1.7,
}
LLAMA, LLAMA3B, MISTRAL, QWEN, QWEN1B, SMOL = WEIGHTS
API = "gemini:gemini-2.0-flash"

COUNTERFACT = "counterfact"


@dataclass(frozen=True)
class Card:
    """A graphics card: dense bf16 operations and bytes from memory, a second."""

    name: str
    operations: float
    bytes: float


SMALL = Card("24 GB (L4)", 121e12, 300e9)
LARGE = Card("80 GB (A100)", 312e12, 2000e9)
_USED, _BLOCK, _BYTES, _REST = 0.4, 26, 2, 2.0


@dataclass(frozen=True)
class Work:
    """What a recipe does on one model: trainings with k retains tried on the mean, evaluations of editors, reasoning.

    edits, epochs, test: the paper's 300, 5 and 100.
    """

    trainings: int = 1
    k: float = 4.0
    editors: int = 2
    reasons: int = 0
    edits: int = 300
    epochs: int = 5
    test: int = 100

    @property
    def tokens(self) -> float:
        """Tokens that are really put through the model."""
        episode = (16 + 2.3 * self.k) * _BLOCK
        edit = (32 + 13) * _BLOCK
        return self.trainings * self.edits * self.epochs * episode + self.editors * self.test * edit

    @property
    def calls(self) -> int:
        """Prompts that are asked, for a model that is paid by the call."""
        return round(self.trainings * self.edits * self.epochs * self.k + self.editors * self.test * 13)

    def hours(self, model: str, card: Card) -> float:
        """Estimated hours of one model on one card."""
        weights = WEIGHTS[model] * 1e9
        reading = 2 * weights * self.tokens / (_USED * card.operations)
        writing = self.reasons * self.test * 128 * _BYTES * weights / card.bytes  # an edit's probes in one batch
        return (_REST * reading + writing) / 3600


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper.

    name: of its recipe, recipes/NAME.sh. place: where it stands in the paper. What it reports is in `report.paper`.
    open: what the paper leaves open, and what the recipe does about it.
    """

    name: str
    place: str
    about: str
    models: tuple[str, ...]
    data: tuple[str, ...]
    work: Work
    open: str = ""

    @property
    def recipe(self) -> str:
        """Where the recipe stands in the repository."""
        return f"recipes/{self.name}.sh"

    @property
    def memory(self) -> float | None:
        """Gigabytes of a card that hold its largest model; None where the model is behind an API."""
        sizes = [WEIGHTS[model] for model in self.models if model in WEIGHTS]
        return _BYTES * max(sizes) + 4 if sizes else None

    def hours(self, card: Card) -> float | None:
        """Estimated hours for all its models; None behind an API."""
        known = [self.work.hours(model, card) for model in self.models if model in WEIGHTS]
        return sum(known) if known else None


STUDIES: tuple[Study, ...] = (
    Study(
        "table1", "Table 1", "main results: FactPrompt, EditCoT, IKE, DR-IKE",
        (LLAMA, QWEN), (COUNTERFACT,), Work(editors=5, reasons=1),
        "Table 1 says Qwen 2.5-7B, Table 2 repeats its figures as Qwen-2.5-7B-Instruct: the instruct model is taken.",
    ),
    Study(
        "table2", "Table 2", "ablation: which retains are shown",
        (LLAMA, QWEN), (COUNTERFACT,), Work(editors=9),
    ),
    Study(
        "table3", "Table 3", "DR-IKE on six models",
        (LLAMA, LLAMA3B, MISTRAL, QWEN, QWEN1B, SMOL), (COUNTERFACT,), Work(editors=2),
        "Whether the two smallest are instruct models is not said; the text sets them against instruct models, so the "
        "base models are taken.",
    ),
    Study(
        "table4", "Table 4", "a model behind an API that gives no scores",
        (API,), (COUNTERFACT,), Work(editors=2),
        "Whether the retriever was trained on the API's own answers is not said; the recipe trains on them. The key is "
        "read from GEMINI_API_KEY; --dry-run of train and evaluate says what it costs.",
    ),
    Study(
        "table5", "Table 5", "zsRE and WikiData-counterfact",
        (LLAMA,), ("zsre-knowedit", "wiki-counterfact"), Work(trainings=2, editors=4),
        "Whose zsRE is not said; KnowEdit's is taken, as its figures lie nearest: see docs/datasets.md.",
    ),
    Study(
        "table6", "Table 6 (appendix)", "budget controllers",
        (LLAMA3B,), (COUNTERFACT,), Work(trainings=5, editors=5),
    ),
    Study(
        "table7", "Table 7 (appendix)", "sensitivity: order of the retains, delayed and noisy rewards",
        (LLAMA,), (COUNTERFACT,), Work(trainings=5, editors=16),
        "Model, delays and orders are not said; the recipe draws delays from 0 to 10 and from 0 to 50 episodes, and "
        "flips .1 and .3 of the rewards, too. The values are 227 and 226 of 300, so they seem to be of training edits. "
        "Of orders the paper says that outputs are stable in most cases, without figures.",
    ),
    Study(
        "table8", "Table 8 (appendix)", "temporal edits, and CounterFact's numerical ones",
        (LLAMA,), ("temporal", COUNTERFACT), Work(trainings=2, editors=4),
        "The model is not said; Llama-3.1-8B-Instruct is taken. Nor which edits are numerical, nor what demonstrates "
        "temporal edits, which have no paraphrases or neighbours: see docs/datasets.md.",
    ),
    Study(
        "figure3", "Figure 3", "case study: prompts and answers under IKE and DR-IKE",
        (LLAMA,), (COUNTERFACT,), Work(editors=2),
        "The paper shows two edits; the recipe shows the first test edit, or the one named in CASE.",
    ),
    Study(
        "figure4", "Figures 4 and 5 (appendix)", "how many retains DR-IKE gives an edit",
        (LLAMA, QWEN), (COUNTERFACT,), Work(editors=1),
    ),
    Study(
        "efficiency", "section 5.3", "seconds per epoch with and without the budget",
        (LLAMA, QWEN), (COUNTERFACT,), Work(trainings=2, k=10.0, editors=2),
        "Both saved shares follow from the seconds; that Llama's seconds with a budget equal Qwen's without one may be "
        "a slip.",
    ),
    Study(
        "epochs", "section 5.1", "ESR by epoch of training",
        (LLAMA, QWEN), (COUNTERFACT,), Work(editors=1),
        "The paper says that it is tracked and prints no figures.",
    ),
)  # fmt: skip


def study(name: str) -> Study | None:
    """A study by its name, table2 or Table 2 alike; None if there is none."""
    wanted = name.casefold().replace(" ", "").removesuffix(".sh")
    return next((one for one in STUDIES if one.name == wanted), None)

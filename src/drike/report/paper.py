"""What the paper publishes, as data: its eight tables, the figures in its text, and the recipe that repeats each.

A published row keeps its coordinates (model, data, editor, setting) beside its values, so that our rows can stand next
to it. Values are the paper's, in its rounding: means without intervals over 100 test edits, measured by its authors.
A study is one table or figure together with its recipe, a shell script under recipes/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIELDS = {"S": "s", "ESR": "esr", "PC": "pc", "RR": "rr", "ESM": "esm", "GSM": "gsm", "s/query": "seconds"}

_LLAMA, _QWEN = "Llama-3.1-8B-Instruct", "Qwen 2.5-7B"
_COUNTERFACT = "CounterFact"


@dataclass(frozen=True)
class Published:
    """A row of the paper: what was measured, and its values; None where the table has no such column or cell.

    variant: the setting of DR-IKE the row is about, where it is about one. extra_parameters: as printed.
    seconds: "inference time per iteration", which the paper does not define further.
    """

    model: str
    editor: str
    data: str = _COUNTERFACT
    variant: str = ""
    s: float | None = None
    esr: float | None = None
    pc: float | None = None
    rr: float | None = None
    esm: float | None = None
    gsm: float | None = None
    seconds: float | None = None
    extra_parameters: str = ""

    def value(self, column: str) -> float | None:
        """The value of a column of `FIELDS`."""
        found: float | None = getattr(self, FIELDS[column])
        return found


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: its number, its label in the source, what it compares, its columns and rows."""

    number: int
    label: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Published, ...]


def _rows(
    columns: Sequence[str], *lines: tuple[float | None, ...], of: Sequence[dict[str, str]]
) -> tuple[Published, ...]:
    """Rows from their coordinates and their values, in the table's columns."""
    return tuple(
        Published(**where, **{FIELDS[c]: v for c, v in zip(columns, line, strict=True)})  # type: ignore[arg-type]
        for where, line in zip(of, lines, strict=True)
    )


def _editors(model: str, *names: str, data: str = _COUNTERFACT) -> list[dict[str, str]]:
    return [{"model": model, "editor": name, "data": data} for name in names]


_EXTRA = {"FactPrompt": "0", "EditCoT": "0", "IKE": "20M", "DR-IKE": "49M"}
_METHODS = ("FactPrompt", "EditCoT", "IKE", "DR-IKE")
_ABLATION = ("IKE-All", "Rank-All", "Rank-50%", "DR-IKE")
_PAIR = ("IKE", "DR-IKE")
_ALL = ("S", "ESR", "PC", "RR", "ESM", "GSM", "s/query")
_THREE, _TWO = ("ESR", "PC", "RR"), ("ESR", "PC")

TABLES: tuple[PaperTable, ...] = (
    PaperTable(
        1, "tab:editing_methods", "editing methods", _ALL,
        _rows(
            _ALL,
            (0.434, 0.61, 0.34, 0.43, 0.21, -0.05, 1.99),
            (0.431, 0.70, 0.33, 0.40, 0.24, -0.06, 2.02),
            (0.727, 0.76, 0.67, 0.76, 0.43, 0.39, 6.52),
            (0.775, 0.89, 0.81, 0.66, 0.69, 0.49, 3.81),
            (0.335, 0.48, 0.26, 0.33, 0.54, 0.45, 2.42),
            (0.424, 0.53, 0.43, 0.35, -0.09, -0.15, 2.25),
            (0.738, 0.75, 0.69, 0.78, 0.64, 0.57, 6.75),
            (0.779, 0.89, 0.77, 0.70, 0.83, 0.74, 4.21),
            of=[where | {"extra_parameters": _EXTRA[where["editor"]]}
                for model in (_LLAMA, _QWEN) for where in _editors(model, *_METHODS)],
        ),
    ),
    PaperTable(
        2, "tab:retain_selection_ablation", "which retains are shown", _THREE,
        _rows(
            _THREE,
            (0.76, 0.67, 0.76), (0.81, 0.69, 0.76), (0.86, 0.71, 0.78), (0.89, 0.81, 0.66),
            (0.75, 0.69, 0.78), (0.84, 0.67, 0.78), (0.84, 0.76, 0.79), (0.89, 0.77, 0.70),
            of=[*_editors(_LLAMA, *_ABLATION), *_editors("Qwen-2.5-7B-Instruct", *_ABLATION)],
        ),
    ),
    PaperTable(
        3, "tab:llm_performance", "DR-IKE on several models", _THREE,
        _rows(
            _THREE,
            (0.89, 0.81, 0.66), (0.86, 0.71, 0.61), (0.53, 0.42, 0.34),
            (0.89, 0.77, 0.70), (0.57, 0.42, 0.39), (0.46, 0.27, 0.22),
            of=[where for model in ("Llama 3.1 (8B)", "Llama 3.2 (3B)", "Mistral v0.2 (7B)", "Qwen 2.5 (7B)",
                                    "Qwen 2.5 (1.5B)", "SmolLM2 (1.7B)") for where in _editors(model, "DR-IKE")],
        ),
    ),
    PaperTable(
        4, "tab:blackbox_eval", "a model behind an API that gives no scores", _THREE,
        _rows(_THREE, (0.69, 0.52, 0.57), (0.91, 0.83, 0.46), of=_editors("Gemini-2.0-Flash", *_PAIR)),
    ),
    PaperTable(
        5, "tab:extended_eval", "other data sets", _THREE,
        _rows(
            _THREE, (0.30, 0.22, 0.49), (0.33, 0.26, 0.51), (0.39, 0.40, 0.63), (0.42, 0.43, 0.64),
            of=[where for data in ("zsRE", "WikiDataCounterFact") for where in _editors(_LLAMA, *_PAIR, data=data)],
        ),
    ),
    PaperTable(
        6, "tab:budget_control", "budget controllers", _TWO,
        _rows(
            _TWO, (0.86, 0.71), (0.81, 0.75), (0.81, 0.69), (0.83, 0.65), (0.80, 0.67),
            of=[{"model": "Llama-3.2-3B", "editor": "DR-IKE", "variant": variant}
                for variant in ("Current method (baseline)", "MLP on softmax scores",
                                "MLP on softmax + query features", "BERT + MLP (predict sigma)",
                                "BERT (query + context) + MLP")],
        ),
    ),
    PaperTable(
        7, "tab:reward_sensitivity", "delayed rewards", ("ESR",),
        _rows(
            ("ESR",), (0.7567,), (0.7533,),
            of=[{"model": "not named", "editor": "DR-IKE", "variant": variant}
                for variant in ("No delay", "Randomly delayed")],
        ),
    ),
    PaperTable(
        8, "tab:temporal_numerical", "temporal and numerical edits", _TWO,
        _rows(
            _TWO, (0.46, None), (0.50, None), (0.67, 0.53), (0.78, 0.68),
            of=[where for data in ("Temporal Editing", "Numerical Subset of CounterFact")
                for where in _editors("not named", *_PAIR, data=data)],
        ),
    ),
)  # fmt: skip

PAPER_TABLE1 = TABLES[0].rows


@dataclass(frozen=True)
class PublishedBudget:
    """Retains per prompt of DR-IKE on 100 test edits (appendix, figures of the retain budget)."""

    model: str
    mean: float
    std: float


RETAIN_BUDGETS = (PublishedBudget("Llama-3.1-8B", 3.02, 0.96), PublishedBudget("Qwen 2.5-7B", 3.72, 1.15))


@dataclass(frozen=True)
class PublishedEpoch:
    """Seconds an epoch of training takes without and with the budget controller (section 5.3)."""

    model: str
    without: float
    seconds: float


EPOCH_SECONDS = (PublishedEpoch("Llama-3.1-8B", 2080.1, 1459.6), PublishedEpoch("Qwen 2.5-7B", 1459.6, 1174.6))


LLAMA, LLAMA3B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"
MISTRAL = "mistralai/Mistral-7B-Instruct-v0.2"
QWEN, QWEN1B, SMOL = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-1.5B", "HuggingFaceTB/SmolLM2-1.7B"
API = "gemini:gemini-2.0-flash"

COUNTERFACT = "counterfact"


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper and what repeating it needs.

    name: of its recipe, recipes/NAME.sh. place: where it stands in the paper. trainings, editors: training runs and
    evaluated editors, per model. unclear: what the paper leaves open, and what the recipe does about it.
    """

    name: str
    place: str
    about: str
    models: tuple[str, ...]
    data: tuple[str, ...]
    trainings: int = 1
    editors: int = 2
    unclear: str = ""

    @property
    def recipe(self) -> str:
        """The path of the recipe in the repository."""
        return f"recipes/{self.name}.sh"

    @property
    def needs_api(self) -> bool:
        """Whether a model of the study is behind an API, so that it costs money and needs a key."""
        return API in self.models


STUDIES: tuple[Study, ...] = (
    Study("table1", "Table 1", "main results: FactPrompt, EditCoT, IKE, DR-IKE", (LLAMA, QWEN), (COUNTERFACT,),
          editors=5,
          unclear="Table 1 says Qwen 2.5-7B; Table 2 repeats its figures as Qwen-2.5-7B-Instruct. The recipe uses the "
                  "instruct model."),
    Study("table2", "Table 2", "ablation: which retains are shown", (LLAMA, QWEN), (COUNTERFACT,), editors=9),
    Study("table3", "Table 3", "DR-IKE on six models", (LLAMA, LLAMA3B, MISTRAL, QWEN, QWEN1B, SMOL), (COUNTERFACT,),
          unclear="The paper does not say whether the two smallest are instruct models. Its text contrasts them with "
                  "instruct models, so the recipe uses the base models."),
    Study("table4", "Table 4", "a model behind an API that gives no scores", (API,), (COUNTERFACT,),
          unclear="The paper does not say whether the retriever was trained on the API's own answers; the recipe does "
                  "that. It reads the key from GEMINI_API_KEY; train and evaluate say with --dry-run what it costs."),
    Study("table5", "Table 5", "zsRE and WikiData-counterfact", (LLAMA,), ("zsre-knowedit", "wiki-counterfact"),
          trainings=2, editors=4,
          unclear="The paper does not say whose zsRE; the recipe uses KnowEdit's, whose figures are nearest: see "
                  "docs/datasets.md."),
    Study("table6", "Table 6 (appendix)", "budget controllers", (LLAMA3B,), (COUNTERFACT,), trainings=5, editors=5),
    Study("table7", "Table 7 (appendix)", "sensitivity: order of the retains, delayed and noisy rewards",
          (LLAMA,), (COUNTERFACT,), trainings=5, editors=16,
          unclear="The paper names no model, delays or orders. The recipe draws delays from 0 to 10 and from 0 to 50 "
                  "episodes, and also flips .1 and .3 of the rewards. The values are 227 and 226 of 300, so they seem "
                  "to come from training edits. Of orders the paper says, without figures, that outputs are stable in "
                  "most cases."),
    Study("table8", "Table 8 (appendix)", "temporal edits, and CounterFact's numerical ones",
          (LLAMA,), ("temporal", COUNTERFACT), trainings=2, editors=4,
          unclear="The paper does not name the model; the recipe uses Llama-3.1-8B-Instruct. Nor does it say which "
                  "edits are numerical, or what demonstrates temporal edits, which have no paraphrases or neighbours: "
                  "see docs/datasets.md."),
    Study("figure3", "Figure 3", "case study: prompts and answers under IKE and DR-IKE", (LLAMA,), (COUNTERFACT,),
          unclear="The paper shows two edits; the recipe shows the first test edit, or the one named in CASE."),
    Study("figure4", "Figures 4 and 5 (appendix)", "how many retains DR-IKE keeps per edit",
          (LLAMA, QWEN), (COUNTERFACT,), editors=1),
    Study("efficiency", "section 5.3", "seconds per epoch with and without the budget", (LLAMA, QWEN), (COUNTERFACT,),
          trainings=2,
          unclear="Both published savings follow from the published seconds. Llama's seconds with a budget equal "
                  "Qwen's without one, which may be a slip."),
    Study("epochs", "section 5.1", "ESR by epoch of training", (LLAMA, QWEN), (COUNTERFACT,), editors=1,
          unclear="The paper says that it tracks this and prints no figures."),
)  # fmt: skip


def study(name: str) -> Study | None:
    """Find a study by name, accepting table2, Table 2 and table2.sh alike; None if there is none."""
    wanted = name.casefold().replace(" ", "").removesuffix(".sh")
    return next((one for one in STUDIES if one.name == wanted), None)

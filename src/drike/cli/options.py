"""The arguments and options that several commands have, and groups of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

from drike.cli.commands import API, DATA, METHOD, MODEL, OUTPUT, argument, flag, option
from drike.models import SERVICES, ApiOptions, Template
from drike.research.datasets import PUBLISHED, SUBSETS, Paraphrases, Target
from drike.research.evaluation.judge import RuleName

FILE = "edits.db"  # the store of edits, unless --store names another
LARGEST = 2**63 - 1  # of whole numbers

# What the help of commands ends with.
VALUES_OF_DATA = (
    f"DATA is tinyfacts (in the package), one of {', '.join(PUBLISHED)} (downloaded), or a file "
    "or address of a data set in its published form, or of own facts (CSV or JSON with prompt and "
    "target_new). Repeat it to join several."
)
VALUES_OF_MODEL = (
    "MODEL is embedded (a small model in the package), reader (an exact model of TinyFacts, for "
    "dry runs in seconds), smollm2 (a small chat model) or gemma-270m, a folder or hub name of a "
    "Hugging Face causal model, a GGUF file, or SERVICE:MODEL, SERVICE:MODEL@URL for a model "
    "behind an API. SERVICE is one of "
    f"{', '.join(SERVICES)}."
)
VALUES = f"{VALUES_OF_DATA}\n\n{VALUES_OF_MODEL}"
RUN_DECIDES = "With --run, the run's values replace the defaults."


# Arguments and options of several commands.

EditId = Annotated[int, argument("ID", "As drike edits list shows it", min=1, max=LARGEST)]
EditIds = Annotated[
    list[int], argument("ID...", "As drike edits list shows it", min=1, max=LARGEST)
]
AnyEditIds = Annotated[
    list[int] | None, argument("[ID...]", "As drike edits list shows it", min=1, max=LARGEST)
]
Store = Annotated[
    str,
    option(
        "--store", "STORE", DATA, "File, or postgresql://USER@HOST/DATABASE (default: edits.db)"
    ),
]
TrainingRun = Annotated[
    Path | None,
    option("--run", "RUN", DATA, "Folder of a training run: use its retriever, data and model"),
]
Data = Annotated[
    list[str] | None,
    option(
        "--data",
        "DATA",
        DATA,
        "What to edit, and what to draw demonstrations from (default: tinyfacts)",
    ),
]
PoolRows = Annotated[
    list[str] | None,
    option(
        "--pool",
        "DATA",
        DATA,
        "Rows that are never edited, only shown as demonstrations; repeatable",
    ),
]
_TRAINING_EDITS = option(
    "--edits", "N", DATA, "Number of training edits (default: 300, or all available)", min=1
)
_TEST_EDITS = option(
    "--test", "N", DATA, "Number of test edits, never trained on (default: 100)", min=0
)
_SEED = option(
    "--seed",
    "N",
    DATA,
    "Seed of the split and all random draws (default: 0)",
    min=0,
    max=LARGEST,
)
_ZSRE_TARGET = option(
    "--zsre-target",
    "NAME",
    DATA,
    "New objects of zsRE: alt (counterfactual) or answers (true)",
    choices=get_args(Target),
)
TrainingEdits = Annotated[int, _TRAINING_EDITS]
AnyTrainingEdits = Annotated[int | None, _TRAINING_EDITS]
TestEdits = Annotated[int, _TEST_EDITS]
AnyTestEdits = Annotated[int | None, _TEST_EDITS]
Seed = Annotated[int, _SEED]
AnySeed = Annotated[int | None, _SEED]
ZsreTarget = Annotated[Target, _ZSRE_TARGET]
AnyZsreTarget = Annotated[Target | None, _ZSRE_TARGET]
Editable = Annotated[
    int | None,
    option(
        "--editable",
        "N",
        DATA,
        "Number of editable rows (first by case_id); the rest supply demonstrations",
    ),
]
Subset = Annotated[
    str | None,
    option("--subset", "NAME", DATA, "Edit only these rows: numerical", choices=tuple(SUBSETS)),
]
AnyParaphrases = Annotated[
    Paraphrases | None,
    option(
        "--paraphrases",
        "NAME",
        DATA,
        "EasyEdit's rephrase_prompt: keep or screen (default: screen CounterFact's)",
        choices=get_args(Paraphrases),
    ),
]

Upstream = Annotated[
    str | None,
    option(
        "--upstream",
        "URL",
        MODEL,
        "Where the API begins, in the form of OpenAI or Anthropic: https://host/v1",
    ),
]
_MODEL = option("--model", "MODEL", MODEL, "The model to edit (default: embedded)")
Model = Annotated[str, _MODEL]
AnyModel = Annotated[str | None, _MODEL]
Device = Annotated[
    str | None,
    option("--device", "NAME", MODEL, "cpu, cuda, mps (default: the fastest available)"),
]
AnyTemplate = Annotated[
    Template | None,
    option(
        "--template",
        "NAME",
        MODEL,
        "plain, or chat: the prompt as one user turn (default behind an API)",
        choices=get_args(Template),
    ),
]

Gate = Annotated[
    str | None,
    option(
        "--gate",
        "GATE",
        METHOD,
        "named, calibrated, careful, eager, or a FILE (default: the store's own, else calibrated)",
    ),
]
GateThreshold = Annotated[
    float | None,
    option(
        "--gate-threshold",
        "P",
        METHOD,
        "Least probability at which an edit matches (default: the gate's)",
        min=0.0,
        max=1.0,
    ),
]
Relations = Annotated[
    list[Path] | None,
    option(
        "--relations",
        "FILE",
        METHOD,
        "More relations that questions may ask for, for the gate: see docs/reference/gate.md",
    ),
]
Supersede = Annotated[
    bool, flag("--supersede", METHOD, "Retire the active edits that it contradicts")
]
IfVersion = Annotated[
    int | None, option("--version", "N", METHOD, "Only if this is still its latest version")
]
JudgeName = Annotated[
    RuleName | None,
    option(
        "--judge",
        "NAME",
        METHOD,
        "When answers are right: greedy, generate, likelihood "
        "(default: greedy, or generate without scores)",
        choices=get_args(RuleName),
    ),
]
Epochs = Annotated[int, option("--epochs", "N", METHOD, "Passes over the training edits", min=1)]
_ENCODER = option(
    "--encoder",
    "NAME",
    METHOD,
    "Text encoder for demonstrations: folder, hub name or hashing (default: MiniLM)",
)
Encoder = Annotated[str, _ENCODER]
AnyEncoder = Annotated[str | None, _ENCODER]
Reason = Annotated[str | None, option("--reason", "TEXT", OUTPUT, "Why, for the history")]

DryRun = Annotated[bool, flag("--dry-run", API, "Print the most it can cost, and send nothing")]
PriceIn = Annotated[
    float | None, option("--price-in", "X", API, "Price of a million prompt tokens", min=0.0)
]
Deadline = Annotated[
    float,
    option("--deadline", "SEC", API, "Time limit for one answer, with retries", min=0.1),
]
ThinkingTokens = Annotated[
    int,
    option("--thinking-tokens", "N", API, "Extra tokens for models that think first", min=0),
]
ReasoningEffort = Annotated[
    str | None,
    option("--reasoning-effort", "NAME", API, "Passed to the API: none, minimal, low, ..."),
]
AllowHttp = Annotated[
    bool, flag("--allow-http", API, "Allow unencrypted requests to other machines")
]


@dataclass(frozen=True)
class DataOptions:
    """Options of the data; None is the run's value, or the default."""

    data: Data = None
    pool: PoolRows = None
    test: AnyTestEdits = None
    seed: AnySeed = None
    editable: Editable = None
    subset: Subset = None
    zsre_target: AnyZsreTarget = None
    paraphrases: AnyParaphrases = None


@dataclass(frozen=True)
class ModelOptions:
    """Options of the model and its prompts; None is the run's value, or the default."""

    model: AnyModel = None
    device: Device = None
    prompt_tokens: Annotated[
        int | None,
        option(
            "--prompt-tokens",
            "N",
            MODEL,
            "Longest prompt in tokens; the last retains are dropped to fit",
            min=1,
        ),
    ] = None
    template: AnyTemplate = None


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that is recorded in a folder."""

    replicas: Annotated[
        int,
        option(
            "--replicas",
            "N",
            MODEL,
            "Copies of the model, as Ray actors with a GPU or a core each",
            min=1,
        ),
    ] = 1
    out: Annotated[
        Path | None,
        option(
            "--out",
            "FOLDER",
            OUTPUT,
            "Folder of the new run (default: in runs, or in RUN/evaluations)",
        ),
    ] = None
    resume: Annotated[
        Path | None,
        option("--resume", "RUN", OUTPUT, "Continue a stopped run with the options it began with"),
    ] = None
    dry_run: DryRun = False


@dataclass(frozen=True)
class GateOptions:
    """Options of the gate; None is the store's own, or the default."""

    gate: Gate = None
    gate_threshold: GateThreshold = None
    relations: Relations = None


@dataclass(frozen=True)
class ApiFlags(ApiOptions):
    """`ApiOptions` as options of commands, in the order of help; their defaults stand there."""

    max_cost: Annotated[
        float | None,
        option("--max-cost", "X", API, "Spending limit; exits with code 3 when reached", min=0.0),
    ]
    max_calls: Annotated[
        int | None,
        option("--max-calls", "N", API, "Limit on requests; exits with code 3 when reached", min=0),
    ]
    price_in: PriceIn
    price_out: Annotated[
        float | None,
        option("--price-out", "X", API, "Price of a million generated tokens", min=0.0),
    ]
    concurrency: Annotated[
        int, option("--concurrency", "N", API, "Requests, and edits, in flight at once", min=1)
    ]
    deadline: Deadline
    tokenizer: Annotated[
        str | None,
        option(
            "--tokenizer",
            "NAME",
            API,
            "Counts tokens for --dry-run, --prompt-tokens: folder or hub name",
        ),
    ]
    thinking_tokens: ThinkingTokens
    reasoning_effort: ReasoningEffort
    text_only: Annotated[bool, flag("--text-only", API, "Do not ask for log-probabilities")]
    no_cache: Annotated[
        bool, flag("--no-cache", API, "Neither read nor write the cache of answers")
    ]
    allow_http: AllowHttp

"""The options of all commands: metavar, help, panel and the values each takes.

`command` turns a function's parameters into options by looking their names up in `OPTIONS`. A parameter that is a
frozen dataclass, such as `DataOptions`, stands for all of its fields; an annotation with an option of its own has
priority, and a Literal type names the words that are accepted. Help lists options in the order of `OPTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from drike.cli.console import SafeHelp
from drike.datasets import PUBLISHED, SUBSETS, Paraphrases, Target
from drike.errors import UsageError
from drike.models import SERVICES, Template

DATA, MODEL, METHOD, OUTPUT = "Data", "Model", "Method", "Output"
API, PAPER = "API and cost", "Paper's switches and studies"
PANELS = (DATA, MODEL, METHOD, OUTPUT, API, PAPER)
LARGEST_SEED = 2**63 - 1  # torch's
FILE = "edits.db"  # the store of edits, unless --store names another

VALUES_OF_DATA = (
    f"DATA is tinyfacts (in the package), one of {', '.join(PUBLISHED)} (downloaded), or a file or address of a data "
    "set in its published form, or of own facts (CSV or JSON with prompt and target_new). Repeat it to join several."
)
VALUES_OF_MODEL = (
    "MODEL is embedded (a small model in the package), reader (an exact model of TinyFacts, for dry runs in seconds), "
    "a folder or hub name of a Hugging Face causal model, or SERVICE:MODEL, SERVICE:MODEL@URL for a model behind an "
    f"API. SERVICE is one of {', '.join(SERVICES)}."
)
VALUES = f"{VALUES_OF_DATA}\n\n{VALUES_OF_MODEL}"
RUN_DECIDES = "With --run, the run's values replace the defaults."


def option(
    metavar: str, text: str, panel: str, *names: str, minimum: float | None = None, maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:  # fmt: skip
    """An option of typer. names: as "--guarantee", the preferred one first; default: the parameter's."""
    return typer.Option(
        *names, metavar=metavar, help=text, rich_help_panel=panel, callback=_checked(choices, minimum, maximum),
        show_default=False,
    )  # fmt: skip


def argument(metavar: str, text: str, **limits: Any) -> Any:
    """An argument of typer, which help does not list. limits: min, max."""
    return typer.Argument(help=text, metavar=metavar, hidden=True, **limits)


def _checked(choices: tuple[str, ...], minimum: float | None = None, maximum: float | None = None) -> Any:
    """A callback of typer that refuses a value out of range, or that is none of the choices. It raises UsageError."""
    limits = f"at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"

    def check(value: Any, param: typer.CallbackParam) -> Any:
        if value is not None and choices and value not in choices:
            raise UsageError(f"{param.opts[0]} must be {' or '.join(choices)}, not {value}")
        if value is not None and minimum is not None and not minimum <= value <= (maximum or float("inf")):  # or nan
            raise UsageError(f"{param.opts[0]} must be {limits}, not {value}")
        return value

    return check


def as_flags(sentence: str) -> str:
    """A sentence of an error, which names arguments of Python as `price_in`, with the options of the command line."""
    name_of = lambda match: f"--{match[1].replace('_', '-')}" if match[1] in OPTIONS else match[0]  # noqa: E731
    return re.sub(r"`([a-z_]+)`", name_of, sentence)


def page_name(out: Path) -> Path:
    """The file of a page. Raises UsageError unless its name ends in .html."""
    if out.suffix != ".html":
        raise UsageError(f"--out names the page: let {out} end in .html")
    return out


def flag(name: str, text: str, panel: str) -> Any:
    """An option of typer that takes no value."""
    return typer.Option(name, metavar="", help=text, rich_help_panel=panel, show_default=False)


_GATE = "named, calibrated, careful, eager, or a FILE (default: the store's own, else calibrated)"

OPTIONS: Mapping[str, Any] = {
    "fact": option("FACT", 'The new fact, as "QUERY -> OBJECT"; repeat it to make several edits', DATA),
    "subject": option("NAME", "Subject of each --fact, in order (default: found in the data)", DATA),
    "run": option("RUN", "Folder of a training run: use its retriever, data and model", DATA),
    "data": option("DATA", "What to edit, and what to draw demonstrations from (default: tinyfacts)", DATA),
    "pool": option("DATA", "Rows that are never edited, only shown as demonstrations; repeatable", DATA),
    "edits": option("N", "Number of training edits (default: 300, or all available)", DATA, minimum=1),
    "test": option("N", "Number of test edits, never trained on (default: 100)", DATA, minimum=0),
    "import_": option("FILE", "Add the reports of a file: of Langfuse, Open WebUI, or our own", DATA, "--import"),
    "seed": option("N", "Seed of the split and all random draws (default: 0)", DATA, minimum=0, maximum=LARGEST_SEED),
    "editable": option("N", "Number of editable rows (first by case_id); the rest supply demonstrations", DATA),
    "store": option("STORE", "File, or postgresql://USER@HOST/DATABASE (default: edits.db)", DATA),
    "keys": option("FILE", "The file of keys (default: beside the store, or in its database)", DATA),
    "create": flag("--create", "Make the store if there is none", DATA),
    "days": option("N", "The last so many days, today included", DATA, minimum=1, maximum=400),
    "log": option("FILE", "Questions, or requests as JSON lines: count those that name its subject", DATA),
    "within": option("90d", "Also those that are due in so many days", DATA),
    "across": option("SETTING", "A setting that the rows differ in: data, epochs, budget, ...", DATA),
    "columns": option("A=B,...", "What columns are called here, as question=query,answer=target_new", DATA),
    "propose": option("N", "Let --model propose up to N paraphrases of an edit", DATA, "--propose", "--wordings",
                      minimum=1, maximum=20),
    "drop": option("TEXT", "Leave out this alias, wording or negative; repeatable", DATA),
    "subset": option("NAME", "Edit only these rows: " + ", ".join(SUBSETS), DATA, choices=tuple(SUBSETS)),
    "zsre_target": option("NAME", "New objects of zsRE: alt (counterfactual) or answers (true)", DATA),
    "paraphrases": option("NAME", "EasyEdit's rephrase_prompt: keep or screen (default: screen CounterFact's)", DATA),
    "upstream": option("URL", "Where the API begins, in the form of OpenAI or Anthropic: https://host/v1", MODEL),
    "model": option("MODEL", "The model to edit (default: embedded)", MODEL),
    "device": option("NAME", "cpu, cuda, mps (default: the fastest available)", MODEL),
    "prompt_tokens": option("N", "Longest prompt in tokens; the last retains are dropped to fit", MODEL, minimum=1),
    "header": option("N=VALUE", "Send this header, for edits that only apply with it; repeatable", MODEL),
    "template": option("NAME", "plain, or chat: the prompt as one user turn (default behind an API)", MODEL),
    "replicas": option("N", "Copies of the model, as Ray actors with a GPU or a core each", MODEL, minimum=1),
    "editors": option("NAMES", "Editors to compare, separated by commas", METHOD),
    "editor": option("NAME", "Editor (default: dr-ike with --run, else no-retains; ike with --every-query)", METHOD),
    "stored": option("N", "Also with N edits (or all editable ones) in force at once, behind the gate", METHOD),
    "gate": option("NAME", "With --stored: named, calibrated (default), careful or eager", METHOD),
    "gate_threshold": option("P", "Least probability at which an edit matches (default: the gate's)", METHOD,
                             minimum=0.0, maximum=1.0),
    "relations": option("FILE", "More relations that questions may ask for, for the gate: see docs/gate.md", METHOD),
    "ask": flag("--ask", "Ask the model, yes or no, where the gate is uncertain", METHOD),
    "unrelated": option("FILE", "Questions that concern no edit, for --stored (default: common ones)", DATA),
    "yes": flag("--yes", "Store all proposed paraphrases that pass the checks", METHOD),
    "close": option("ID", "Close this report; repeatable", METHOD),
    "wrong": option("ID", "Make a report of this sample; repeatable", METHOD),
    "forget": flag("--forget-samples", "Delete all samples", METHOD),
    "at_least": option("P", "Share of answers that should state the new object", METHOD, minimum=0.0, maximum=0.999),
    "draft": option("ID", "Draft an edit from this report; repeatable for reports of the same", METHOD),
    "into": option("NAME", "Its status once it is approved: active or shadow", METHOD),
    "version": option("N", "Only if this is still its latest version", METHOD),
    "supersede": flag("--supersede", "Retire the active edits that it contradicts", METHOD),
    "role": option("NAME", "report (wrong answers), use (the model), propose (edits), approve them, or admin (metrics "
                   "and the upstream's files, too)", METHOD),
    "samples": option("N", "Answers to each question; several at the model's own temperature", METHOD, minimum=1,
                      maximum=1000),
    "token_price": option("X", "What a thousand tokens must gain, in S", METHOD, minimum=0.0, maximum=10.0),
    "false_fire": option("X", "Largest share of matches among questions that must not match", METHOD, minimum=1e-6,
                         maximum=0.5),
    "every_query": flag("--every-query", "Put every query under an edit, as the paper does", METHOD),
    "objective": option("NAME", "paper, or s: also train a policy on S that decides for each query (dr-ike-q)", METHOD),
    "named": flag("--named", "Without effect: dr-ike-q always reads whether a query names the subject", METHOD),
    "shot_price": option("X", "Cost of showing dr-ike-q all demonstrations, in S", METHOD, minimum=0.0, maximum=10.0),
    "promise": option("BOUND", 'Level that dr-ike-q keeps on new edits (95 % confidence), as "rr>=.85"; also of esr, '
                      "pc", METHOD, "--guarantee", "--promise"),
    "calibrate_on": option("N", "Number of edits held out for --guarantee (default: 100)", METHOD, minimum=1),
    "epochs": option("N", "Passes over the training edits", METHOD, minimum=1),
    "budget": option("NAME", "Number of retains: threshold (DR-IKE), all, half", METHOD),
    "judge": option("NAME", "When answers are right: greedy, generate, likelihood (default: greedy, or generate "
                    "without scores)", METHOD),
    "probes": option("NAME", "What is asked of each edit: published (the data set's own), or all (also what drike "
                     "generates)", METHOD),
    "demonstrations": option("N", "At most so many of tinyfacts (default: those that fit); 0 states facts alone",
                             METHOD, minimum=0),
    "tool_results": option("on|off", "State facts behind tool results and documents that they concern", METHOD),
    "retry_slips": flag("--retry-slips", "Ask again where an answer (no stream) states the old object", METHOD),
    "notify": option("URL", "Send signed webhooks about edits: proposed, approved, slipping, due for review", API),
    "keep_samples": option("N", "Keep so many answers with their texts, of each edit and outcome", METHOD, minimum=0,
                           maximum=100),
    "redact": flag("--redact/--no-redact", "Hide addresses, keys and long numbers in samples (default)", METHOD),
    "mode": option("NAME", "shadow: decide and count only (default with --upstream); on; off", METHOD,
                   choices=("shadow", "on", "off")),
    "deadline_ms": option("MS", "Time limit for deciding (default: 50; 250 with an encoder; 2000 with --ask; 5000 for "
                          "a model here)", METHOD, minimum=1.0, maximum=6e4),
    "max_shots": option("N", "K: most retains in a prompt", METHOD, minimum=1),
    "learning_rate": option("X", "Adam's step size", METHOD, minimum=0.0, maximum=1e3),
    "encoder": option("NAME", "Text encoder for demonstrations: folder, hub name or hashing (default: MiniLM)", METHOD),
    "policy_encoder": option("NAME", "Text encoder under the trained head (default: --encoder)", METHOD),
    "parallel_edits": option("N", "B: edits rolled out at once; 1 is Algorithm 1", METHOD, minimum=1),
    "out": option("FOLDER", "Folder of the new run (default: in runs, or in RUN/evaluations)", OUTPUT),
    "reason": option("TEXT", "Why, for the history", OUTPUT),
    "refused": option("FILE", "Write refused rows to it, with the reason (default: FILE.refused.csv)", OUTPUT),
    "json_": flag("--json", "Print JSON instead of a table", OUTPUT),
    "show": option("N", "Most rows of a table", OUTPUT, minimum=1),
    "closed": flag("--all", "Closed reports too", OUTPUT),
    "compare": flag("--compare", "Ask nothing: show what the last run changed, or what changed since run ID", OUTPUT),
    "resume": option("RUN", "Continue a stopped run with the options it began with", OUTPUT),
    "explain": flag("--explain", "Show which demonstrations were chosen, and why", OUTPUT),
    "show_prompt": flag("--show-prompt", "Print the prompts", OUTPUT),
    "write": flag("--write", "Also record the text that the model generates", OUTPUT),
    "host": option("HOST", "Where to listen; beyond this machine only with keys", API),
    "port": option("N", "The port of the API", API, minimum=0, maximum=65535),
    "admin_host": option("HOST", "Where the admin port listens", API),
    "admin_port": option("N", "The port for admin requests", API, minimum=0, maximum=65535),
    "timeout": option("SEC", "Longest silence of the upstream within an answer", API, minimum=0.1, maximum=86400.0),
    "require_keys": flag("--require-keys", "Do not start without keys", API),
    "reuse_port": flag("--reuse-port", "Let other gateways listen on the same ports", API),
    "workers": option("N", "Processes on the port of the API, with an admin port each", API, minimum=1, maximum=64),
    "dry_run": flag("--dry-run", "Print the most it can cost, and send nothing", API),
    "max_cost": option("X", "Spending limit; exits with code 3 when reached", API, minimum=0.0),
    "max_calls": option("N", "Limit on requests; exits with code 3 when reached", API, minimum=0),
    "price_in": option("X", "Price of a million prompt tokens", API, minimum=0.0),
    "price_out": option("X", "Price of a million generated tokens", API, minimum=0.0),
    "concurrency": option("N", "Requests, and edits, in flight at once", API, minimum=1),
    "deadline": option("SEC", "Time limit for one answer, with retries", API, minimum=0.1),
    "tokenizer": option("NAME", "Counts tokens for --dry-run, --prompt-tokens: folder or hub name", API),
    "thinking_tokens": option("N", "Extra tokens for models that think first", API, minimum=0),
    "reasoning_effort": option("NAME", "Passed to the API: none, minimal, low, ...", API),
    "text_only": flag("--text-only", "Do not ask for log-probabilities", API),
    "no_cache": flag("--no-cache", "Neither read nor write the cache of answers", API),
    "allow_http": flag("--allow-http", "Allow unencrypted requests to other machines", API),
    "form": option("NAME", "Scoring head: dot or cross", PAPER),
    "flip": option("NAME", "How sigma is raised when an added retain breaks the answer: offender or algorithm1", PAPER),
    "layout": option("NAME", "Prompt: append (retains last, best first) or ike (shuffled)", PAPER),
    "retain": option("NAME", "Retains: headed (with their New Fact line) or bare", PAPER),
    "own_copy": flag(" /--no-own-copy", "Do not repeat the edit as a demonstration", PAPER),
    "sigmas": option("LIST", "Also use these thresholds instead of the learned one, as .03,.06", PAPER),
}  # fmt: skip


@dataclass(frozen=True)
class DataOptions:
    """Options of the data; None is the run's value, or the default."""

    data: list[str] | None = None
    pool: list[str] | None = None
    test: int | None = None
    seed: int | None = None
    editable: int | None = None
    subset: str | None = None
    zsre_target: Target | None = None
    paraphrases: Paraphrases | None = None


@dataclass(frozen=True)
class ModelOptions:
    """Options of the model and its prompts; None is the run's value, or the default."""

    model: str | None = None
    device: str | None = None
    prompt_tokens: int | None = None
    template: Template | None = None


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that is recorded in a folder."""

    replicas: int = 1
    out: Path | None = None
    resume: Path | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class GateOptions:
    """Options of the gate; None is the store's own, or the default."""

    gate: Annotated[str | None, option("GATE", _GATE, METHOD)] = None
    gate_threshold: float | None = None
    relations: list[Path] | None = None


class Command(SafeHelp, TyperCommand):
    """A command whose help lists its own options only: --help would get a panel to itself, above all others."""

    def get_help_option(self, ctx: Any) -> Any:
        """--help, which works and is not listed."""
        help_option = super().get_help_option(ctx)
        if help_option is not None:
            help_option.hidden = True
        return help_option


def command(epilog: str = "", kind: type[Command] = Command) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command, with an option for each parameter, and for each field of one that is a dataclass.

    epilog: what its help ends with.
    """

    def made(function: Callable[..., None]) -> Command:
        own = signature(function, eval_str=True).parameters.values()
        groups: dict[str, Any] = {of.name: of.annotation for of in own if is_dataclass(of.annotation)}

        @wraps(function)
        def with_groups(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
            function(**values)

        options = sorted(chain.from_iterable(map(_options, own)), key=_place)
        with_groups.__signature__ = Signature(options)  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(cls=kind, epilog=epilog)(with_groups)
        return typer.main.get_command(app)  # type: ignore[return-value]

    return made


def _options(parameter: Parameter) -> list[Parameter]:
    """The options that a parameter stands for."""
    group = parameter.annotation
    if not is_dataclass(group):
        return [_option(parameter)]
    hints = get_type_hints(group, include_extras=True)
    return [_option(of.replace(annotation=hints[of.name])) for of in signature(group).parameters.values()]  # type: ignore[arg-type]


def _option(parameter: Parameter) -> Parameter:
    """A parameter that typer reads as an option: its own, or that of `OPTIONS`; a Literal type gives its choices."""
    hint, default = parameter.annotation, parameter.default
    kind, info = get_args(hint) if get_origin(hint) is Annotated else (hint, OPTIONS[parameter.name])
    info = copy(info)
    literal = next((part for part in (kind, *get_args(kind)) if get_origin(part) is Literal), None)
    if literal is not None:
        info.callback = _checked(get_args(literal))
        kind = str if kind is literal else str | None
    if default not in (None, Parameter.empty) and not isinstance(default, bool) and "default" not in info.help:
        info.help += f" (default: {default})"
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _place(parameter: Parameter) -> tuple[int, int]:
    """Where help lists an option: by panel, then as in `OPTIONS`; arguments first."""
    panel, names = parameter.annotation.__metadata__[0].rich_help_panel, [*OPTIONS, parameter.name]
    return PANELS.index(panel) if panel else -1, names.index(parameter.name)

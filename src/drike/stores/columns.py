"""The columns of files of edits: what they are called, and which of them mean the same.

`drike edits import` reads such files, and so does a benchmark of own facts
(`research/datasets/own.py`).
"""

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache

from drike.errors import DataError
from drike.support.rows import Row, shown

# What only a store uses; a benchmark does not read these.
STORED = (
    "aliases", "negatives", "object_aliases", "not_names", "status", "valid_from", "valid_to",
    "priority", "enforce", "only", "approved_as", "owner", "review_by", "review_days", "metadata",
    "written_by", "source", "author", "reason", "move",
)  # fmt: skip
NEEDED = ("prompt", "target_new")
COLUMNS = (
    "the columns of own facts are prompt (or query) and target_new, and where known subject, "
    "target_true, relation, paraphrase (also paraphrase_2, ...), neighborhood_prompt with "
    "neighborhood_answer, and for a store " + ", ".join(STORED)
)
SEPARATOR = "|"  # of several texts in one cell
SIMILARITY = 0.78  # from which on a name is taken for a misspelt one: "object" is none of "subject"

# Columns of which there may be several, told apart by numbers.
_REPEATABLE = ("paraphrase", "neighborhood_prompt", "neighborhood_answer")
_SPELT_AS_NAMED = (*NEEDED, "subject", "relation", "neighborhood", "case_id", *STORED)
# The spellings of each column, by its name.
_PATTERNS = {
    **{name: name for name in _SPELT_AS_NAMED},
    "prompt": "prompt|query",
    "target_true": "target_true|ground_truth",
    "paraphrase": r"(?:paraphrase|wording)s?(?:_?\d+)?",
    "neighborhood_prompt": r"neighborhood_prompt(?:_?\d+)?",
    "neighborhood_answer": r"neighborhood_answer(?:_?\d+)?",
}


# What spreadsheets and data frames write into a cell that holds nothing. Names are spelt otherwise:
# Nan is a province, Null a family.
_NOTHING = frozenset(
    (
        *("nan", "NaN", "NAN", "-nan", "-NaN", "NaT", "NULL", "null", "None", "NONE", "undefined"),
        *("NA", "<NA>", "N/A", "N/a", "n/a", "N.A.", "n.a.", "NA_character_", "\\N"),
        *("(null)", "(NULL)", "[null]", "[NULL]", "<null>", "<NULL>"),
        *("N.A", "k.A.", "k. A.", "n/v", "n. a.", "[object Object]", "Loading..."),
        *("(blank)", "(leer)", "(vide)", "(vacío)", "(vuoto)", "(пусто)", "(空白)", "(empty)"),
        *("#N/A", "#n/a", "#NA", "#N/A N/A", "#NV", "#N/D", "#NULL", "#GETTING_DATA"),
        *("#YOK", "#N/B", "#I/T", "#Н/Д", "#SAKNAS", "#PUUTTUU", "#HIÁNYZIK", "#Loading..."),
        *("#REF", "#VALUE", "#NAME", "#NUM", "#DIV/0", "#SPILL", "#CALC", "#FIELD", "#ERROR"),
        *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "1.#INF", "-1.#INF"),
    )
)
_SIGNS = re.compile(r"[-‐-―−?.…_*/\\#\s]+")  # which people put where they know nothing
# What they write for an error, in any language: #REF!, #NAME?, #DIV/0!, #BEZUG!, Err:502, #####.
_ERROR = re.compile(r"#[¡¿]?[^\W\d_][\w/ ]*[!?]|(?i:err):\d{3}|#{3,}")
# A number as a spreadsheet shows it in a narrow cell, of which the other digits are lost; and a
# formula in place of its value.
_SHORTENED = re.compile(r"[+-]?\d(?:[.,]\d{1,6})?E[+-]\d{2,3}")
_FORMULA = re.compile(r"=(?:[A-ZÄÖÜ][A-ZÄÖÜ0-9_.]*\(.*|\$?[A-Z]{1,3}\$?\d+|'?[^=!]+'?!\$?[A-Z].*)")


def says_nothing(cell: object) -> bool:
    """Whether a cell holds a spreadsheet's or a data frame's mark for nothing, or for an error."""
    if isinstance(cell, float):
        return math.isnan(cell)
    if not isinstance(cell, str):
        return False
    text = cell.strip()
    return text in _NOTHING or _ERROR.fullmatch(text) is not None


def states_nothing(text: str) -> bool:
    """Whether a text is no fact: a mark for nothing, signs alone, or a number that lost its digits.

    So is a formula in place of its value.
    """
    spoilt = (_SIGNS, _SHORTENED, _FORMULA)
    return says_nothing(text) or any(form.fullmatch(text.strip()) for form in spoilt)


def columns_by_name(row: Row) -> Mapping[str, list[str]]:
    """The row's columns by their names, whatever their spelling.

    Raises DataError for an unknown column, for two that mean the same, and for a neighbour's answer
    without its prompt.
    """
    columns: dict[str, list[str]] = {}
    for column in row.values:
        name = name_of(column)
        if name is None:
            intended = similar_name(column.casefold())
            hint = f" (did you mean {intended}?)" if intended else ""
            raise DataError(f"{row.place} has an unknown field {shown(column)!r}{hint}; {COLUMNS}")
        same = columns.setdefault(name, [])
        same.append(column)
        if len(same) > 1 and name not in _REPEATABLE:
            both = " and ".join(same)
            raise DataError(f"{row.place} has {both}, which mean the same; remove one of them")
    prompts = {_as_spelt(prompt) for prompt in columns.get("neighborhood_prompt", ())}
    for answer in columns.get("neighborhood_answer", ()):
        prompt = _as_spelt(answer).replace("answer", "prompt")
        if prompt not in prompts:
            raise DataError(f"{row.place} has {answer} and no {prompt}; name both alike")
    return columns


@lru_cache(maxsize=1 << 10)  # rows have the same columns
def name_of(column: str) -> str | None:
    """The name of a column by its spelling in a file; None for an unknown one."""
    spelt = _as_spelt(column)
    for name, pattern in _PATTERNS.items():
        if re.fullmatch(pattern, spelt):
            return name
    return None


def _as_spelt(column: str) -> str:
    """The header of a column as the patterns spell it: "Target new" is target_new."""
    return re.sub(r"[\s_-]+", "_", column.strip().casefold())


def similar_name(column: str) -> str | None:
    """The name that an unknown column may be a misspelling of; None if there is none like it."""
    similar = get_close_matches(column, _PATTERNS, n=1, cutoff=SIMILARITY)
    return similar[0] if similar else None

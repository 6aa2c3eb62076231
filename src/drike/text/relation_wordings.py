"""Relations as people word them: those that come with drike, and those of a user's files."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from drike.errors import UsageError

_FORMAT = (
    "blocks of 'relation: NAME', 'answer: KIND' and wordings with {} for the subject, "
    "with blank lines between"
)
_WORDING = re.compile(r"(?:(?P<language>[a-z]{2}): )?(?P<text>.*\{\}.*)")


@dataclass(frozen=True)
class Relation:
    """A relation and its wordings, with "it" for the subject.

    Its groups are questions, statements, and the wordings of each other language.
    """

    name: str
    groups: tuple[tuple[str, ...], ...]


@cache
def built_in() -> tuple[Relation, ...]:
    """The relations that come with drike."""
    folder = resources.files("drike.text").joinpath("relations")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        relation for file in files for relation in relations_in(file.read_text("utf-8"), file.name)
    )


def read_relations(files: Iterable[Path]) -> tuple[Relation, ...]:
    """The relations of files. Raises UsageError for a bad one."""
    relations: list[Relation] = []
    for file in files:
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(
                f"the relations in {file} cannot be read ({problem}): give a text file in UTF-8"
            ) from None
        relations += relations_in(text, str(file))
    return tuple(relations)


def relations_in(text: str, name: str) -> list[Relation]:
    """The relations in the text of a file called `name`.

    Raises UsageError with the name, the line and the remedy.
    """
    wordings_by_group: dict[str, list[str]] | None = None
    relations: dict[str, dict[str, list[str]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        relation = line.removeprefix("relation:").strip()
        if line.startswith("relation:") and relation:
            wordings_by_group = relations.setdefault(relation, defaultdict(list))
        elif line.strip() and not line.startswith(("#", "answer:")):
            wording = _WORDING.fullmatch(line.strip())
            if wording is None or line.count("{}") != 1 or wordings_by_group is None:
                fault = f"{name}, line {number}: {line[:60]!r} is no wording of a relation"
                raise UsageError(f"{fault}; it takes {_FORMAT}")
            is_question = line.rstrip().endswith("?")
            group = wording["language"] or ("?" if is_question else ".")
            wordings_by_group[group].append(wording["text"].replace("{}", "it"))

    if not relations or not all(relations.values()):
        raise UsageError(f"{name} has a relation without wordings, or none; it takes {_FORMAT}")
    return [
        Relation(relation, tuple(map(tuple, groups.values())))
        for relation, groups in relations.items()
    ]

"""New objects in a query that names no subject: "Which company does Katharina Vogt lead?", "Who was born in Graz?"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from drike.gates.names import Mention
from drike.gates.phrases import own_name
from drike.gates.relations import is_open
from drike.gates.surroundings import inside
from drike.short_forms import NameMatch, lists
from drike.words import MAX_NAME_WORDS, Words, extended

SHARING = 3  # edits with an object; one that more edits have says too little of any


def objects_in(words: Words, ids_of: Mapping[int, Sequence[int]]) -> Iterator[Mention]:
    """The objects in a text, the longest at each place, with the ids of their edits. ids_of: by fingerprint.

    A common word in lower case and digits do not count: "Which of the four ...?" is not about an edit to "four".
    """
    begin = 0
    while begin < len(words):
        whole, longest, ids = 0, begin + 1, tuple[int, ...]()
        for end, key in enumerate(words.keys[begin : begin + MAX_NAME_WORDS].tolist(), begin + 1):
            whole = extended(whole, key)
            if words.least[begin] <= end - begin and words.last[end - 1] and (known := ids_of.get(whole)):
                longest, ids = end, tuple(known)
        name = words.between(begin, longest)
        if ids and not name.isdigit() and name not in lists("common words"):
            yield Mention(name, NameMatch.FULL, begin, longest, ids, inside=inside(words, begin, longest))
        begin = longest


def object_features(question: str, mentions: Sequence[Mention], subjects: Sequence[Mention]) -> dict[str, float]:
    """What tells whether a question, with "it" for an object that it mentions, asks for the subject of its edit."""
    return {
        "object": 1.0,
        "closed": float(not is_open(question)),  # it asks for nothing by its words, as for yes or no
        "others": float(own_name(question) is not None),  # it names something else, too
        # whether the object is the subject of other edits, which the question may be about
        "subject": float(any((m.begin, m.end) == (s.begin, s.end) for m in mentions for s in subjects)),
    }

"""What firms offer, where the firm is named apart: "the Solo plan of Querystone"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.name_index import Mention, NameIndex
from drike.text.name_forms import firm_and_offered
from drike.text.short_forms import NameMatch
from drike.text.words import Words

_MOST_WORDS = 12  # of a text, of which any two are looked up


def offered_names(
    words: Words, may_be_known: Flags, is_free: Flags, index: NameIndex
) -> list[Mention]:
    """What is named by a word with a capital, and by a firm anywhere in a text.

    may_be_known: which words may be in names. is_free: which are in no other name. "Compare
    Querystone's Solo and Team plans" names two plans.
    """
    known = np.flatnonzero(may_be_known)[:_MOST_WORDS]
    offered = np.array(
        [place for place in known if is_free[place] and words.text[words.begins[place]].isupper()],
        np.int64,
    )
    if not len(offered) or len(known) < 2:
        return []

    firms = np.repeat(known, len(offered))
    others = np.tile(offered, len(known))
    keys = firm_and_offered(words.keys[firms], words.keys[others])
    places, names = index.known.find(keys)
    mentions: list[Mention] = []
    for pair, name in zip(places.tolist(), index.known.sorted[names].tolist(), strict=True):
        begin = int(others[pair])
        text = f"{words.word(int(firms[pair]))} {words.word(begin)}"
        mentions += [
            replace(mention, name=text, ambiguous=False, cased=True)
            for mention in index.mentions(words, name, begin, begin + 1, (NameMatch.PARTIAL,))
        ]
    return mentions

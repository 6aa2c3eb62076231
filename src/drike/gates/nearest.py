"""`Nearest`: the gate that decides by the cosine similarity of wordings alone."""

from __future__ import annotations

from dataclasses import dataclass

from drike.gates.decision import Candidate, Decision, _decision
from drike.gates.index import EditIndex, _Asked, _embedded, _nearest


@dataclass(frozen=True)
class Nearest:
    """Fires on the edit with the wording that is nearest to the query by cosine similarity, whatever it names.

    threshold: the least cosine at which it fires; it differs between encoders and kinds of texts. Needs an index with
    vectors.
    """

    threshold: float = 0.7

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire the nearest edit, if it is near enough."""
        asked = _Asked.of(query, index)
        [vector] = _embedded(index, [query])
        near = dict(_nearest(index, vector))
        candidates = [Candidate(index.edits[i], near[i], None, {"whole": near[i]}) for i in near]
        sure = [c for c in candidates if c.probability >= self.threshold and not asked.excluded(c.edit)]
        return _decision(query, candidates, sure[:1], "no wording is near enough")

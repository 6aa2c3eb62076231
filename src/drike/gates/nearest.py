"""`Nearest`: the gate that decides by the cosine similarity of texts alone."""

from __future__ import annotations

from dataclasses import dataclass

from drike.gates.decision import Candidate, Decision, foremost
from drike.gates.index import EditIndex, ParsedQuery


@dataclass(frozen=True)
class Nearest:
    """Matches the edit with the paraphrase that is nearest to the query by cosine similarity, whatever it names.

    threshold: the least cosine at which it matches; it differs between encoders and kinds of texts. Needs an index with
    vectors.
    """

    threshold: float = 0.7

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the nearest edit, if it is near enough."""
        parsed = ParsedQuery.of(query, index)
        [vector] = index.embed([parsed.excerpts(())[0][0]])
        near = index.nearest(vector)
        candidates = {i: Candidate(index.edits[i], near[i], None, {"whole": near[i]}) for i in near}
        enough = [i for i in near if near[i] >= self.threshold and not parsed.excluded(index.edits[i])]
        matching = [candidates[i] for i in foremost(index, enough)]
        return Decision.of(query, list(candidates.values()), matching, "no wording is near enough")

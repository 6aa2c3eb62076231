"""Trials on the admin port: what is decided on a question, and what the upstream answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from drike.edits.record import EditVersion
from drike.gates.decision import Candidate, Decision
from drike.gateway.answers import LONGEST_TEXT, text_of
from drike.gateway.calls import Upstream, whole
from drike.gateway.control.changes import AdminCall, Json, edit_json
from drike.gateway.control.trial_limits import TrialLimits
from drike.gateway.editing import TRIAL, RequestEditor
from drike.gateway.errors import UpstreamError
from drike.gateway.feed import EditFeed
from drike.gateway.http.relay import while_connected
from drike.gateway.http.threads import in_daemon_thread
from drike.gateway.proving.questions import EditQuestion, questions_about
from drike.gateway.proving.verification import EditVerdict, by_concern, named
from drike.gateway.requests import one_message
from drike.models.served.failures import error_message, failure_in
from drike.models.served.quirks import NEWER_LIMIT, OLDER_LIMIT, for_newer_models
from drike.stores.edit_store import versions_of

_TOKENS = 64  # of an answer
_THOUGHTS = 2048  # tokens of an answer with thoughts
_MAX_CANDIDATES = 10


@dataclass(frozen=True, eq=False)
class Trials:
    """Questions that people try, by the way of users' requests; no decision on them is recorded.

    limits: so that nobody's trials keep others from theirs.
    """

    editor: RequestEditor
    upstream: Upstream
    limits: TrialLimits = field(default_factory=TrialLimits)

    async def decide(self, call: AdminCall) -> Json:
        """The decision on a query."""
        params = call.request.query_params
        chat = one_message(params.get("model", "default"), params.get("q", ""))
        decision, _ = await self.editor.trial(chat, call.feed)
        return decision_json(decision, call.feed)

    async def ask(self, call: AdminCall) -> Json:
        """Ask the upstream without and with the edits that match."""
        query = call.values.get("query")
        model = call.values.get("model", "default")
        max_tokens = call.values.get("max_tokens", 64)
        if not isinstance(query, str) or not isinstance(model, str) or type(max_tokens) is not int:
            raise ValueError("query, model or max_tokens is missing, or is not of its type")
        chat = one_message(model, query, max_tokens=max_tokens)
        with self.limits.trial(call.principal):
            self.limits.spend(call.principal, 2)
            async with while_connected(call.request.receive):
                decision, edited = await self.editor.trial(chat, call.feed)
                before = await self.answer(chat.body, call.feed)
                after = before if edited == chat.body else await self.answer(edited, call.feed)
        return {
            "decision": decision_json(decision, call.feed),
            "before": before,
            "after": after,
            "sent": json.loads(edited)["messages"][-1]["content"],
        }

    async def verify(self, call: AdminCall) -> Json:
        """Ask the upstream about an edit, which is in force for these questions alone.

        It may be a draft or a proposal.
        """
        model = call.field("model", str) or "default"
        with self.limits.trial(call.principal):
            versions = await call.read(lambda: versions_of(call.feed.store, call.id))
            record = replace(versions[-1].record, only=())  # whatever requests it is for
            edit = replace(versions[-1], record=record)
            feed = await in_daemon_thread(call.feed.trying, [edit])
            questions = await in_daemon_thread(_questions_about, edit, feed)
            unedited = sum(not question.kind.concerns for question in questions)
            self.limits.spend(call.principal, len(questions) + unedited)
            async with while_connected(call.request.receive):
                verdicts = [await self._verdict(question, model, feed) for question in questions]
        return await in_daemon_thread(_verdicts_json, edit, verdicts)

    async def _verdict(self, question: EditQuestion, model: str, feed: EditFeed) -> EditVerdict:
        chat = one_message(model, question.text, max_tokens=_TOKENS)
        decision, body = await self.editor.trial(chat, feed)
        unedited = None if question.kind.concerns else await self.answer(chat.body, feed)
        answer = await self.answer(body, feed)
        edits = tuple(map(named, decision.matched))
        scope = "fired" if edits else "abstained"
        stated = await in_daemon_thread(question.edit.record.states, answer)
        return EditVerdict(question, answer, stated, edits, scope, unedited=unedited)

    async def answer(self, body: bytes, feed: EditFeed) -> str:
        """The text of the upstream's answer to a chat.

        Raises UpstreamError, also for a chat that the upstream refuses.
        """
        try:
            call = replace(TRIAL, body=body, tenant=feed.tenant)
            async with self.upstream.exchange(call) as reply:
                answer = json.loads(await whole(reply))
            if reply.status == 400:
                request = json.loads(body)
                if request.get(OLDER_LIMIT):
                    thinking = {**for_newer_models(request), NEWER_LIMIT: _THOUGHTS}
                    return await self.answer(json.dumps(thinking).encode(), feed)
            if reply.status != 200:
                problem = error_message(answer, str) or f"status {reply.status}"
                raise UpstreamError(f"the upstream refuses the question: {problem}")
            failure = failure_in(answer, str)
            if failure is not None:
                raise UpstreamError(f"the upstream failed: {failure}")
            text = text_of({"choices": [answer["choices"][0]]})
            if len(text) > LONGEST_TEXT:
                raise UpstreamError(
                    f"the upstream's answer has more than {LONGEST_TEXT:,} characters, which is "
                    "not judged: look at the model"
                )
            return text
        except (ValueError, LookupError, TypeError, RecursionError):
            raise UpstreamError("the upstream's answer is not in OpenAI's form") from None


def _questions_about(edit: EditVersion, feed: EditFeed) -> list[EditQuestion]:
    """The questions that prove an edit, each in a chat of its own."""
    asked = questions_about([edit], feed.index)
    return [question for question in asked if question.first is None]


def _verdicts_json(edit: EditVersion, verdicts: Sequence[EditVerdict]) -> Json:
    concerned, others = by_concern(verdicts)
    return {
        "edit": edit.id,
        "version": edit.version,
        "asked": len(concerned),
        "took": sum(not verdict.problem for verdict in concerned),
        "others": len(others),
        "leaked": sum(bool(verdict.problem) for verdict in others),
        "failures": [
            {
                "question": verdict.question.text,
                "answer": verdict.answer,
                "problem": verdict.problem,
            }
            for verdict in verdicts
            if verdict.problem
        ],
    }


def decision_json(decision: Decision, feed: EditFeed) -> Json:
    """A decision with the best of the candidates that were considered."""
    values: Json = {
        "query": decision.query,
        "fired": [edit_json(edit, feed) for edit in decision.matched],
        "considered": [
            _candidate_json(candidate, feed) for candidate in decision.candidates[:_MAX_CANDIDATES]
        ],
        "reason": decision.reason,
        "threshold": getattr(
            feed.gate, "threshold", None
        ),  # of probabilities, which names have not
    }
    if decision.left_out:
        values["left_out"] = [edit_json(edit, feed) for edit in decision.left_out]
    return values


def _candidate_json(candidate: Candidate, feed: EditFeed) -> Json:
    return {
        "edit": edit_json(candidate.edit, feed),
        "probability": candidate.probability,
        "name": candidate.name,
        "features": dict(candidate.features),
    }

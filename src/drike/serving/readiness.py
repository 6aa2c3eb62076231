"""What keeps a gateway from answering: its upstream, its files, its keys, and the edits of tenants."""

from __future__ import annotations

from dataclasses import dataclass

from drike.serving.keys import KeyRole, Principal
from drike.serving.server import file_shortage
from drike.serving.tenants import Tenants
from drike.serving.upstream import Upstream

_UNREADABLE = "the edits or the gate of {} cannot be read: a key of its own shows why"


@dataclass(frozen=True)
class Readiness:
    """What is wrong now. keyed: whether a key is needed to be told of files."""

    upstream: Upstream
    tenants: Tenants
    keyed: bool

    async def public(self) -> list[str]:
        """Why requests of the default tenant would fail; where keys are in use, without a path."""
        own = self.tenants.problems()
        if own and self.keyed:
            own = [_UNREADABLE.format("the default tenant")]
        keys = ["the keys cannot be read: a key for admin shows why"] if self.tenants.problem else []
        return [*await self._of_process(), *own, *keys]

    async def shown_to(self, principal: Principal) -> list[str]:
        """What is wrong with a tenant's edits; for an administrator also with other tenants', and with the keys."""
        problems = [*await self._of_process(), *self.tenants.problems(principal.tenant)]
        if not principal.role.includes(KeyRole.ADMIN):
            return problems
        others = self.tenants.feeds.keys() - {principal.tenant}
        problems += [_UNREADABLE.format(f"tenant {name}") for name in sorted(others) if self.tenants.problems(name)]
        return [*problems, self.tenants.problem] if self.tenants.problem else problems

    async def _of_process(self) -> list[str]:
        return list(filter(None, (await self.upstream.problem(), file_shortage())))

"""An upstream and a gateway over it with one edit, for each test file that has none of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.gateways import ENTRY, Running, running
from tests.fakes.upstreams import Recorded, upstream


@pytest.fixture(scope="module")
def above() -> Iterator[Recorded]:
    with upstream() as recorded:
        yield recorded


@pytest.fixture(scope="module")
def gateway(above: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(above.url, tmp_path_factory.mktemp("gateway"), ENTRY) as serving:
        yield serving

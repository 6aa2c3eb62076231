"""The forms that drike reads, one module each, in the order in which they are tried."""

from __future__ import annotations

from drike.datasets.forms import counterfact, flat, halluedit, knowedit, multihop, own, qaedit, temporal, zsre

FORMS = (
    counterfact.FORM, multihop.FORM, knowedit.FORM, flat.FORM, flat.AS_PUBLISHED, zsre.FORM, temporal.FORM,
    halluedit.FORM, qaedit.FORM, own.FORM,
)  # fmt: skip

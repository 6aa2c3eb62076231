"""The published forms that drike reads, one module each, in the order in which they are tried."""

from __future__ import annotations

from drike.datasets.forms import counterfact, flat, knowedit, temporal, zsre

FORMS = (counterfact.FORM, knowedit.FORM, flat.FORM, zsre.FORM, temporal.FORM)

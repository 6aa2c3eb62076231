"""The forms that drike reads, each in a file: how a row is recognised, what it edits and asks."""

from drike.research.datasets import own
from drike.research.datasets.forms import (
    counterfact,
    easyedit,
    halluedit,
    knowedit,
    multihop,
    qaedit,
    temporal,
    zsre,
)

# In the order in which they are tried. Rows of EasyEdit's flat form are recognised as SCREENED;
# `easyedit.flat_form` then decides by the whole file.
FORMS = (
    counterfact.FORM,
    multihop.FORM,
    knowedit.FORM,
    easyedit.SCREENED,
    easyedit.AS_PUBLISHED,
    zsre.FORM,
    temporal.FORM,
    halluedit.FORM,
    qaedit.FORM,
    own.FORM,
)

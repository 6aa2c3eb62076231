"""Edits from rows of published data sets, for those who put them into a store."""

from drike.edits.edit import Edit
from drike.research.datasets import own
from drike.research.datasets.form import Form
from drike.research.datasets.forms import FORMS
from drike.support.rows import Row


class PublishedForms:
    """Reads the edit of a row in any published form, for `drike.stores.tables.edits_of`."""

    def has(self, row: Row) -> bool:
        """Whether the row is of a published form."""
        return _form_of(row) is not None

    def edit(self, row: Row) -> Edit:
        """The row's own edit, to its made-up object.

        Raises DataError for a missing or unusable field.
        """
        form = _form_of(row)
        if form is None:
            raise ValueError(f"{row.place} is of no published form")
        return form.edits(row, "alt")[0]


def _form_of(row: Row) -> Form | None:
    for form in FORMS:
        if form is not own.FORM and form.recognises(row):
            return form
    return None

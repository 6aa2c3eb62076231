"""Names as people call one thing by them: "Halcyon Ltd" and "the Halcyon" are Halcyon.

Two names of different legal forms, such as Halcyon GmbH and Halcyon AG, are two companies.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from drike.text.relation_words import word_set
from drike.text.word_lists import word_list
from drike.text.words import words

_ARTICLES = word_list("articles") | word_set("articles")
_JOINING = ("and", "und", "et", "och")  # "&", which is no word, means the same
_MORE_THAN_A_FORM = {"group", "holding", "holdings"}  # these may be other companies
# One form under two names.
_SAME_FORMS = {
    "limited": "ltd",
    "incorporated": "inc",
    "corporation": "corp",
    "company": "co",
    "gmbhcokg": "gmbhundcokg",
}
# Forms that stand before a name, or in scripts without spaces.
_OTHER_SCRIPTS = re.compile(
    r"株式会社|有限会社|合同会社|股份有限公司|有限责任公司|有限公司|주식회사|유한회사|\(주\)|㈜|㈱"
    r"|(?<!\w)(?:ООО|ОАО|ЗАО|ПАО|АО|ТОВ)(?!\w)|^PT(?= )"
)
_MOST_WORDS = 4  # of a legal form


class BareName(NamedTuple):
    """A name without article and legal form, and that form; "" for none."""

    key: str
    form: str

    def may_be(self, other: "BareName") -> bool:
        """Whether both may name one thing."""
        are_two_forms = self.form and other.form and self.form != other.form
        return self.key == other.key and not are_two_forms


@lru_cache(4_096)
def bare_name(name: str) -> BareName:
    """A name as others are compared with it: also without case, accents and "&"."""
    found = _OTHER_SCRIPTS.search(name)
    rest = _OTHER_SCRIPTS.sub(" ", name) if found else name
    said = [word for word in words(rest) if word not in _JOINING] or words(rest)
    if len(said) > 1 and said[0] in _ARTICLES:
        said = said[1:]

    forms = [found[0]] if found else []
    while size := _size_of_form(said):
        forms.append(_canonical("".join(said[-size:])))
        said = said[:-size]
    return BareName(" ".join(said) or name, forms[0] if forms else "")


def _size_of_form(said: list[str]) -> int:
    """How many words the longest legal form at the end of a name has; 0 without one."""
    for size in range(min(_MOST_WORDS, len(said) - 1), 0, -1):
        if "".join(said[-size:]) in _legal_forms():
            return size
    return 0


def _canonical(form: str) -> str:
    return _SAME_FORMS.get(form, form)


@cache
def _legal_forms() -> frozenset[str]:
    """Without signs and spaces: "sa" for "S.A."."""
    forms = {"".join(words(form)) for form in word_list("legal forms")}
    return frozenset(forms - _MORE_THAN_A_FORM)

"""Whether a name in a text is only part of a longer one, or means another place."""

from drike.text.capitals import begins_sentence, capital, in_title
from drike.text.ordinary_words import is_ordinary
from drike.text.phrases import phrase_at
from drike.text.word_lists import demonyms, word_list
from drike.text.words import Words

QUESTION_WORDS = frozenset(("who", "whom", "whose", "what", "which", "where", "when", "how"))

_BEFORE_QUESTION = 8  # words before a name among which a question word may stand
_AND_OR = ("and", "or", "und", "y", "et")
_OF = ("of", "de", "di")
_HYPHENS = ("-", "–")
_MOST_FORMAL_WORDS = 7  # before a country that may belong to its formal name
_SHORTEST_LAST_NAME = 3  # letters
_BEFORE_NAMES = ("about", "for", "from", "in", "of", "to", "with")
_OFTEN_BEGIN_SENTENCES = ("new", "north", "real", "south")


def continued(words: Words, begin: int, end: int) -> bool:
    """Whether a word in capitals or a number adjoins a name, as in a longer one: "iPhone X"."""
    if end < len(words) and _adjoins_next(words, end - 1) and _may_be_of_name(words, end):
        return True
    behind_of = begin > 1 and words.word(begin - 1) == "of"
    if behind_of and _adjoins_next(words, begin - 1) and _adjoins_next(words, begin - 2):
        begin -= 1
    if begin < 2 or not _adjoins_next(words, begin - 1):
        return False
    return _may_be_of_name(words, begin - 1) and not _only_begins_sentence(words, begin - 1)


def _only_begins_sentence(words: Words, number: int) -> bool:
    """Whether a word has its capital from the sentence that it begins: "Hello", "Does"."""
    word = words.word(number)
    is_other_word = word in word_list("common words") or phrase_at(word, "polite") is not None
    return is_other_word and begins_sentence(words, number)


def behind_only(words: Words, begin: int, end: int) -> str | None:
    """The word with which a name goes on behind it, as `continued` says; None if others precede."""
    if continued(words, begin, len(words)) or not continued(words, 0, end):
        return None
    return words.word(end)


def _adjoins_next(words: Words, number: int) -> bool:
    """Whether a space or a hyphen is all that stands between a word and the next."""
    gap = words.text[words.ends[number] : words.begins[number + 1]]
    return gap in (" ", *_HYPHENS)


def _may_be_of_name(words: Words, number: int) -> bool:
    return capital(words, number) and words.word(number) not in word_list("acronyms")


def inside(words: Words, begin: int, end: int, *, last: bool = False) -> bool:
    """Whether a name surely is part of a longer one: "Peru" in "Peru, Indiana".

    last: it is a person's last name.
    """
    in_lower_case = words.between(begin, end).islower()  # words around it may be so, too
    if begin and _spaced(words, begin - 1):
        one_word = end - begin == 1
        if one_word and _is_first_name(words, begin - 1, in_lower_case, last):
            return True
        if _belongs_to_before(words, begin, in_lower_case):
            return True
    if end < len(words) and _spaced(words, end - 1) and (in_lower_case or capital(words, end)):
        if _belongs_to_after(words, end):
            return True
        behind_first_name = words.word(begin) in word_list("first names") and not in_lower_case
        if behind_first_name and _is_last_name(words, begin, end):
            return True
    return other_place(words, begin, end) or _goes_on(words, begin, end)


def within_initials(words: Words, begin: int, end: int) -> bool:
    """Whether initials are part of more of them: "N.C." in "M.D.N.C."."""
    sizes = words.ends[begin:end] - words.begins[begin:end]
    if sizes.max() > 1:
        return False
    return any(
        0 < place < len(words)
        and words.text[words.ends[place - 1] : words.begins[place]] == "."
        and words.ends[place - 1] - words.begins[place - 1] == 1
        and words.ends[place] - words.begins[place] == 1
        for place in (begin, end)
    )


def _is_first_name(words: Words, number: int, in_lower_case: bool, last: bool) -> bool:
    """Whether a word is a first name, or an initial behind one.

    last: before a last name, so that any name is.
    """
    first_names = word_list("first names")
    word = words.word(number)
    while len(word) == 1 and word not in first_names:
        if number == 0 or words.text[words.ends[number]] != ".":
            return False
        if last and _named_by_capital(words, number):
            return True
        number -= 1
        word = words.word(number)
        last = False

    if word in first_names:
        return in_lower_case or capital(words, number)
    if not last or not _named_by_capital(words, number):
        return False
    is_other_word = word in word_list("titles") or word in word_list("common words")
    return not is_other_word and not in_title(words, number, number + 1)


def _named_by_capital(words: Words, number: int) -> bool:
    """Whether a word has a capital, and not because it begins a sentence."""
    return capital(words, number) and not begins_sentence(words, number)


def _belongs_to_before(words: Words, begin: int, in_lower_case: bool) -> bool:
    """Whether what stands before a name makes another one with it: "University of", "New"."""
    before = begin - 1
    word = words.word(before)
    if word in _OF and before > 0 and _spaced(words, before - 1):
        named = in_lower_case or capital(words, before - 1)
        return named and words.word(before - 1) in word_list("of")
    if word in _OFTEN_BEGIN_SENTENCES and begins_sentence(words, before):
        return False
    return word in word_list("before") and (in_lower_case or capital(words, before))


def _belongs_to_after(words: Words, end: int) -> bool:
    """Whether the word or two behind a name make another name with it: "Peru State"."""
    behind = words.folded(end, end + 2)
    return behind[0] in word_list("after") or " ".join(behind) in word_list("after")


def _is_last_name(words: Words, begin: int, end: int) -> bool:
    """Whether the word behind a first name seems to be a last name: "Jordan Peterson"."""
    if begin and words.word(begin - 1) in _BEFORE_NAMES:
        return False  # "is the capital of Jordan Amman?"
    word = words.word(end)
    may_be_name = word.isalpha() and len(word) >= _SHORTEST_LAST_NAME
    is_other_word = word in word_list("common words")
    return may_be_name and not is_other_word and not in_title(words, begin, end)


def _goes_on(words: Words, begin: int, end: int) -> bool:
    """Whether a word behind a name in a question has a capital, too: "Who wrote Dune Messiah?"."""
    if end >= len(words) or not _spaced(words, end - 1):
        return False
    if not (capital(words, begin) and capital(words, end)):
        return False
    behind = words.between(end, end + 1)
    # Two ordinary words with capitals are one name: "Gap Year".
    is_of_words = end - begin == 1 and is_ordinary(words.word(begin))
    is_common = behind.casefold() in word_list("common words")
    is_name = behind[1:].islower() and (is_of_words or not is_common)
    before = words.folded(max(0, begin - _BEFORE_QUESTION), begin)
    in_question = not QUESTION_WORDS.isdisjoint(before)
    return is_name and in_question and not in_title(words, begin, end)


def other_place(words: Words, begin: int, end: int) -> bool:
    """Whether a country or famous town is another place by what stands around it.

    A state behind its comma, a country at a hyphen ("Denmark-Norway"), a wrong form ("Third
    Republic of South Korea").
    """
    place = " ".join(words.folded(begin, end))
    if place in demonyms():
        return (
            _before_state(words, end)
            or _joined_with_country(words, begin, end)
            or _other_state(words, begin, place)
        )
    return place in word_list("famous towns") and _before_state(words, end)


def _before_state(words: Words, end: int) -> bool:
    """Whether a state follows behind a comma, in no list of places.

    "Lima, Ohio" is in a state; "Georgia, Ohio and Iowa" is a list.
    """
    behind = words.folded(end, end + 3)
    if not behind or words.text[words.ends[end - 1] : words.begins[end]] != ", ":
        return False
    for size in (2, 1):
        if " ".join(behind[:size]) in word_list("states"):
            is_listed = len(behind) > size and behind[size] in _AND_OR
            return not is_listed
    return False


def _joined_with_country(words: Words, begin: int, end: int) -> bool:
    """Whether a hyphen joins a country with another one."""
    before = begin - 1
    if before >= 0 and _hyphen_behind(words, before) and words.word(before) in demonyms():
        return True
    return end < len(words) and _hyphen_behind(words, end - 1) and words.word(end) in demonyms()


def _hyphen_behind(words: Words, number: int) -> bool:
    return words.text[words.ends[number] : words.begins[number + 1]] in _HYPHENS


def _other_state(words: Words, begin: int, country: str) -> bool:
    """Whether a form of state before "of" and a country is not its own: "Kingdom of Italy"."""
    if begin and words.word(begin - 1) == "the":
        begin -= 1
    before = words.folded(max(0, begin - _MOST_FORMAL_WORDS), begin)
    if len(before) < 2 or before[-1] != "of" or before[-2] not in word_list("states of"):
        return False

    size = _formal_name_size(before, country.removeprefix("the "))
    if not size:
        return capital(words, begin - 2)
    first = begin - size  # of the words of the formal name
    if not (first and capital(words, first - 1) and _spaced(words, first - 1)):
        return False
    further = words.word(first - 1)
    only_begins_sentence = begins_sentence(words, first - 1) and further in word_list(
        "common words"
    )
    return further not in word_list("articles") and not only_begins_sentence


def _formal_name_size(before: list[str], country: str) -> int:
    """How many words before a country belong to its formal name; 0 if it has no such name."""
    for size in range(len(before), 1, -1):
        if " ".join((*before[-size:], country)) in word_list("formal names"):
            return size
    return 0


def _spaced(words: Words, number: int) -> bool:
    """Whether only a space stands between a word and the next, or a point behind an initial."""
    gap = words.text[words.ends[number] : words.begins[number + 1]]
    is_initial = words.ends[number] - words.begins[number] == 1
    return gap == " " or (gap == ". " and is_initial)

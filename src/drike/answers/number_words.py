"""Numbers in words put in digits: "twelve thousand five hundred", "fünfundvierzig", "7 and a half".

Its time is linear in the text.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache

_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
)
_ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_GERMAN = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn"
    " fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
_GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
_OTHERS = {
    "dos": 2, "tres": 3, "cuatro": 4, "cinco": 5, "seis": 6, "siete": 7, "ocho": 8, "nueve": 9,
    "diez": 10, "doce": 12, "quince": 15, "veinte": 20, "treinta": 30, "cuarenta": 40,
    "cincuenta": 50, "deux": 2, "trois": 3, "quatre": 4, "cinq": 5, "sept": 7, "huit": 8,
    "neuf": 9, "dix": 10, "douze": 12, "quinze": 15, "vingt": 20, "trente": 30, "quarante": 40,
    "cinquante": 50, "soixante": 60, "dreissig": 30, "trece": 13,
    "catorce": 14, "cien": 100, "octante": 80, "dieciséis": 16, "diecisiete": 17,
    "dieciocho": 18, "diecinueve": 19, "veintiuno": 21, "veintidós": 22, "veintitrés": 23,
    "veinticuatro": 24, "veinticinco": 25, "veintiséis": 26, "veintisiete": 27, "veintiocho": 28,
    "veintinueve": 29, "sesenta": 60, "setenta": 70, "ochenta": 80, "noventa": 90,
    "onze": 11, "treize": 13, "quatorze": 14, "seize": 16,
}  # fmt: skip
_MAGNITUDES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9,
               "hundert": 100, "tausend": 1000}  # fmt: skip
# Halves and other parts of one, and an article that is a number: "half a year", "eine Stunde".
_TIME_UNIT = (
    r"(?:hours?|days?|weeks?|months?|years?|minutes?|stunden?|tag(?:en?)?|wochen?|monat(?:en?)?"
    r"|jahr(?:en?)?|minuten?|heures?|jours?|semaines?|mois|ans?|années?|horas?|días?|semanas?|mes"
    r"|años?|minutos?)\b"
)
# Parts of an hour, which are minutes: "three quarters of an hour", "eine Viertelstunde".
_PARTS_OF_HOUR = {
    "45": r"(?:three[- ]quarters|3[/ ]4) of an hour|(?:eine )?dreiviertelstunde"
    r"|trois quarts d['’]heure|tres cuartos de hora",
    "15": r"(?:a )?quarter (?:of an )?hour|(?:eine )?viertelstunde|(?:un )?quart d['’]heure"
    r"|(?:un )?cuarto de hora",
    "30": "(?:an? )?half[- ](?:an )?hour",
}
_PART_OF_HOUR = re.compile(
    rf"\b(?:{'|'.join(f'(?P<m{minutes}>{said})' for minutes, said in _PARTS_OF_HOUR.items())})\b",
    re.IGNORECASE,
)
_MAY_BE_PART_OF_HOUR = re.compile("quarter|viertel|quart|half.h|cuarto", re.IGNORECASE)
_SIGNS_OF_PARTS = {"¼": ".25", "½": ".5", "¾": ".75"}
_PART_OF_ONE = re.compile(
    rf"""
    (?<!\d)(?P<whole>\d{{0,9}})[ ]?(?P<sign>[¼½¾])
  | \b(?:one|an?)[ ](?P<unit>hour|year|month|week|day)[ ]and[ ]a[ ]half\b
  | \b(?P<one_and>anderthalb|eineinhalb)\b
  | \b(?:half[ ]an?|(?:ein\w*[ ])?halbe[nrs]?|(?:une[ ])?demie?|medi[oa])[ -](?={_TIME_UNIT})
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WORD_OF_PART = re.compile("[¼½¾]|half|halb|demi|medi[oa]", re.IGNORECASE)  # found fast
# An article that is a number. One of English is that behind some words, as "a month" may be a rate.
_ONE = re.compile(rf" (?P<article>eine[nr]?|ein|une?|una|an?|the) (?={_TIME_UNIT})", re.IGNORECASE)
_ONE_ALONE = re.compile(rf"^\W*(?:an?|eine?|un|une|una) (?={_TIME_UNIT}\W*$)", re.IGNORECASE)
_BEHIND_ONE = re.compile(
    r"\w+ (?:before|ahead|earlier|in advance|after|later|prior|vorher)\b", re.I
)
_BEFORE_ONE = re.compile(
    r"\b(?:lasts?|takes?|gets?|given|needs?|spend|for|within|up to|only)$", re.IGNORECASE
)
_AMOUNT_BEFORE = re.compile(r"\d ?(?:[^\W\d_]+|[$€£%])?$")
_MOST_AMOUNT = 16  # characters
_MOST_BEFORE_ONE = 8  # characters
_POINT = re.compile(r"\b(?P<whole>\d+) (?:point|komma|coma|virgule) (?P<decimals>\d(?: ?\d)*)\b")
_FOUR_TWENTIES = re.compile(r"\bquatre-vingts?\b", re.IGNORECASE)
_MINUS = re.compile(
    r"\b(?:minus|menos|moins) (?=\d+ ?(?:°|degrees|grad|degrés|grados))", re.IGNORECASE
)
_MOST_KEPT = 64  # texts
_ABOVE_TENS = {"soixante": 20, "octante": 20}  # soixante-quinze
_JOINING = ("y", "et")  # of "treinta y ocho", "vingt et un"
_HALF = re.compile(r"(?<![\d.,])(?P<number>\d+) and a half\b", re.IGNORECASE)


@cache
def _numbers() -> Mapping[str, int]:
    """The numbers that are one word."""
    german = _GERMAN.split()
    numbers = dict(_OTHERS)
    for words in (_ENGLISH.split(), german):
        numbers |= {word: number for number, word in enumerate(words)}
    numbers |= {word: 10 * ten for ten, word in enumerate(_ENGLISH_TENS.split(), 2)}
    for ten, word in enumerate(_GERMAN_TENS.split(), 2):
        numbers[word] = 10 * ten
        for one, unit in enumerate(["ein", *german[2:10]], 1):
            numbers[f"{unit}und{word}"] = 10 * ten + one
    return numbers


@lru_cache(maxsize=_MOST_KEPT)  # one answer is read for each part of an object
def spelled_in_digits(text: str) -> str:
    """A text with its numbers in digits, where they are written in words."""
    text = _ONE_ALONE.sub("1 ", text)
    if _MAY_BE_PART_OF_HOUR.search(text):
        text = _PART_OF_HOUR.sub(lambda match: f"{(match.lastgroup or '')[1:]} minutes", text)
    if _WORD_OF_PART.search(text):
        text = _PART_OF_ONE.sub(_in_digits, text)
    text = _FOUR_TWENTIES.sub("octante", _ONE.sub(_one, text))
    numbers = _numbers()
    parts: list[str] = []
    run: list[re.Match[str]] = []
    copied = 0
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if run and not _goes_on(text, run[-1], match, word):
            copied = _put(parts, text, run, copied)
            run = []
        is_hundred = word in _MAGNITUDES and not run and _begins_number(text, match)
        if word in numbers or is_hundred or (run and word in (*_MAGNITUDES, *_JOINING, "and")):
            run.append(match)
    if run:
        copied = _put(parts, text, run, copied)
    parts.append(text[copied:])
    in_digits = _HALF.sub(r"\g<number>.5", "".join(parts))
    return _MINUS.sub("-", _POINT.sub(_with_point, in_digits))


def _begins_number(text: str, match: re.Match[str]) -> bool:
    """Whether a magnitude is a number by itself, with no digit before it: "a hundred people"."""
    before = text[max(0, match.start() - 2) : match.start()].strip(" -.,")
    return not before[-1:].isdigit()


def _with_point(match: re.Match[str]) -> str:
    """A number whose decimals were words: "1 point 7 5"."""
    return f"{match['whole']}.{match['decimals'].replace(' ', '')}"


def _one(match: re.Match[str]) -> str:
    """An article before a time as a number, where it is none of a rate."""
    article = match["article"].lower()
    if _AMOUNT_BEFORE.search(match.string, max(0, match.start() - _MOST_AMOUNT), match.start()):
        return match[0]  # "20 cents a day after that"
    if article in ("a", "an", "the") and not _BEHIND_ONE.match(match.string, match.end()):
        before = match.string[max(0, match.start() - _MOST_BEFORE_ONE) : match.start()]
        if article == "the" or not _BEFORE_ONE.search(before):
            return match[0]
    return " 1 "


def _in_digits(match: re.Match[str]) -> str:
    """A part of one, or one, in digits."""
    if match["sign"]:
        return f"{match['whole'] or 0}{_SIGNS_OF_PARTS[match['sign']]}"
    if match["unit"]:
        return f"1.5 {match['unit']}s"
    return "1.5" if match["one_and"] else "0.5 "


def _goes_on(text: str, last: re.Match[str], match: re.Match[str], word: str) -> bool:
    """Whether a word goes on with the number before it: "two | hundred", "twenty | -five"."""
    if text[last.end() : match.start()] not in (" ", "-"):
        return False
    before = last[0].lower()
    if word in _MAGNITUDES:
        return before != "and"
    if word == "and":
        return before in _MAGNITUDES
    number = _numbers().get(word)
    before_number = _numbers().get(before)
    if word in _JOINING:
        return _are_tens(before_number)
    if number is None:
        return False
    is_above_tens = before in _JOINING or _are_tens(before_number)
    most = _ABOVE_TENS.get(before, 10)
    return (0 < number < most) if is_above_tens else before_number is None  # behind a magnitude


def _are_tens(number: int | None) -> bool:
    return number is not None and number >= 20 and number % 10 == 0


def _put(parts: list[str], text: str, run: list[re.Match[str]], copied: int) -> int:
    """Put a number for its words; how much of the text is then copied."""
    if run[-1][0].lower() in ("and", *_JOINING):
        run = run[:-1]
    parts.append(text[copied : run[0].start()])
    parts.append(str(_value([match[0].lower() for match in run])))
    return run[-1].end()


def _value(words: list[str]) -> int:
    """The number that words such as "two hundred and five thousand" are."""
    total = group = 0
    for word in words:
        magnitude = _MAGNITUDES.get(word)
        if magnitude == 100:
            group = max(group, 1) * 100
        elif magnitude:
            total += max(group, 1) * magnitude
            group = 0
        elif word not in ("and", *_JOINING):
            group += _numbers()[word]
    return total + group

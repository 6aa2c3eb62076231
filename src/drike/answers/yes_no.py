"""Whether an answer begins with yes or no, and what that says of what was asked."""

import re

from drike.answers.denials import agrees, behind_politeness, is_yes, said_not

YES_OR_NO = re.compile(r"\s*(?P<yes>yes|ja|sí|oui)\b|\s*(?P<no>no|nein|non)\b(?!\.\s*\d)", re.I)
# "They do.", "You can, if", "It isn't:", which repeats the verb of the question
_ECHO = re.compile(
    r"\W*(?:i|you|we|they|s?he|it|that|there|one)\s(?:(?:sure|certainly|definitely|absolutely"
    r"|indeed|really|most certainly)\s)?(?:do|does|ca(?=n['’]t)|can|may|is|are|will|wo(?=n['’]t)"
    r"|did|have|has|would|could|should|must)(?P<no>n['’]t|\s?not)?"
    r"(?: now| indeed| too)?\s*(?:[.:;!–—-]|$|,(?!\s*(?:however|i\.e\.))\s"
    r"|(?:as long|if|provided|indeed)\b)"
    r"(?<!that is,\s)",
    re.IGNORECASE,
)
_NO_MATTER = re.compile(r"no (?:problem|worries|doubt|matter|one|longer)\b", re.IGNORECASE)
_ASKS_WHETHER_NOT = re.compile(
    r"\w\W+(?:\w+n['’]t|not|no longer|never|cannot|nicht(?: mehr)?|keine?)\b[^.?!]*\?\s*$",
    re.IGNORECASE,
)


def says_of(question: str, answer: str, permission: str) -> str:
    """Yes or no to what a question asks for; else permission, which other words say of it.

    "Yes" to "Is it true that dogs aren't allowed?" is a no.
    """
    said = polarity(answer)
    if not said or _ECHO.match(behind_politeness(answer)) or not asks_whether_not(question):
        return said or permission
    return permission or ("no" if said == "yes" else "")


def polarity(answer: str) -> str:
    """Whether an answer begins with yes or no; else ""."""
    said = behind_politeness(answer)
    if said_not(said):
        return "no"
    if echo := _ECHO.match(said):
        return "no" if echo["no"] else "yes"
    match = YES_OR_NO.match(said)
    if match and not _NO_MATTER.match(said):
        return "yes" if match["yes"] else "no"
    return "yes" if agrees(said) or is_yes(said) else ""


def asks_whether_not(question: str) -> bool:
    """Whether a question asks whether something is not so, to which "yes" means "no".

    Such is "Is it true that dogs aren't allowed?", and not "Aren't dogs allowed?".
    """
    return _ASKS_WHETHER_NOT.search(question) is not None

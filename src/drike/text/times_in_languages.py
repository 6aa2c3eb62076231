"""Of which time a question in German, Spanish, French or Chinese is, as it was asked.

Word by word in English too little is left of it: "vor zwei Jahren" becomes "before two years".
"""

from __future__ import annotations

import re
from functools import lru_cache

_LONGEST = 1_000  # characters of a text that is read
_CLAUSE_END = re.compile(r"[,;，；。、]")
_SUBJECT = re.compile(r"(?<![a-z])it(?![a-z])")
_YEAR = r"(?:19|20)\d\d"

# Times that are over, however the verb is put.
_PAST = re.compile(
    # German
    r"\b(?:früher\w*|ehemal\w*|vormal\w*|vorherig\w*|vorig\w*|bisherig\w*|damal\w*|seinerzeit|einst"
    r"|ursprünglich\w*|anfangs|anfänglich\w*|zuvor|gestern"
    r"|(?:letzte[nrms]?|vergangene[nrms]?) (?:jahr\w*|monat\w*|woche\w*|quartal\w*|saison|sommer"
    r"|winter|frühling|herbst|jahrzehnt\w*)"
    r"|vor \w+ (?:jahr|monat|woche|tag)\w*|bis vor kurzem"
    r"|in den (?:\d0er|\w+ziger)n?(?: jahren)?|alte[nrms]? (?:preis|name|nummer|gebühr|chef|leiter"
    r"|adresse|sitz|frist|tarif)\w*)\b"
    # Spanish
    r"|\b(?:anterior(?:es|mente)?|antiguamente|antigu[oa]s?|antaño|originalmente|inicialmente"
    r"|al principio|en su origen|ayer|en aquel entonces|hace \w+ (?:año|mes|semana|día)e?s?"
    r"|(?:año|mes|semana|verano|invierno|temporada|década|siglo) pasad[oa]"
    r"|en los (?:años )?(?:\w+enta|veinte|\d0)|solía\w*)\b"
    # French
    r"|\b(?:autrefois|auparavant|jadis|naguère|anciennement|ancien(?:ne)?s?|précédent(?:e|es|s)?"
    r"|précédemment|à l['’]origine|à l['’]époque|initialement"
    r"|(?:an|mois|été|hiver|printemps|automne) (?:dernier|passé)"
    r"|(?:année|semaine|saison|décennie) (?:dernière|passée)"
    r"|il y a \w+ (?:ans?|mois|semaines?|jours?)"
    r"|dans les années (?:\d\d|vingt|trente|quarante|cinquante|soixante\w*|quatre\w*))\b"
    # Chinese
    r"|去年|前年|以前|过去|原来|当时|曾经|当初|最初|起初|前任|上任|上一任|上个月|上周|上个季度|昨天|年代"
    r"|[\d一二两三四五六七八九十几]+个?(?:年|月|周|天)前|旧(?:的|价)|合并(?:之)?前|之前的"
)
# What speaks of the past only behind such a verb: "before the merger", "in 2015", "at first".
_PAST_VERB = re.compile(
    r"\b(?:war(?:en)?|hatten?|wurden?|gab|hieß(?:en)?|galt(?:en)?|lag(?:en)?|betrug(?:en)?"
    r"|wog(?:en)?|durften?|mussten?|konnten?|kostete[nt]?|leitete[nt]?|führte[nt]?|dauerte[nt]?"
    r"|zahlte[nt]?|arbeitete[nt]?|öffnete[nt]?|verlangte[nt]?|gehörte[nt]?"
    r"|era[ns]?|fue(?:ron)?|estaba[ns]?|estuvo|tenía[ns]?|tuvo|había[ns]?|costaba[ns]?|costó"
    r"|valía[ns]?|dirigía[ns]?|dirigió|llamaba[ns]?|cobraba[ns]?|duraba[ns]?|abría[ns]?|cerraba[ns]?"
    r"|podía[ns]?|pagaba[ns]?"
    r"|était|étaient|fut|avai(?:t|ent)|coûtai(?:t|ent)|valai(?:t|ent)|dirigeai(?:t|ent)"
    r"|appelai(?:t|ent)|durai(?:t|ent)|ouvrai(?:t|ent)|fermai(?:t|ent)|pouvai(?:t|ent)"
    r"|payai(?:t|ent)|fallait)\b"
)
_PAST_WITH_VERB = re.compile(
    r"\b(?:vor (?:de[rmn]|ihre[rmn]?|seine[rmn]?) \w+|während (?:de[rs]) \w+|als (?:er|sie|es)"
    r"|antes de(?:l| la| los| las)? \w+|antes|durante (?:el|la|los|las) \w+|cuando (?:se )?\w+"
    r"|avant (?:la |le |les |l['’])\w+|avant|pendant (?:la |le |les |l['’])\w+|lors d\w* \w+"
    rf"|(?:im jahre? |in |en |en el año |de |dès |seit |bis |until )(?:{_YEAR}))\b"
)
# Such verbs say of a price that it is another one today, whatever else is said.
_USED_TO = re.compile(
    r"\b(?:costaba[ns]?|valía[ns]?|cobraba[ns]?|coûtai(?:t|ent)|valai(?:t|ent))\b"
)
_FUTURE = re.compile(
    r"\b(?:(?:nächste[nrms]?|kommende[nrms]?) (?:jahr|monat|woche|saison|sommer|winter|quartal)\w*"
    r"|künftig\w*|zukünftig\w*|in zukunft|ab nächste[nrms]? \w+"
    r"|(?:año|mes) (?:que viene|próximo)|próxim[oa] (?:año|mes|semana|temporada)|en el futuro"
    r"|(?:an|mois) prochain|(?:année|semaine|saison) prochaine|à l['’]avenir)\b"
    r"|明年|后年|下个月|下周|下个季度|将来|未来"
)
_PRESENT = re.compile(
    r"\b(?:jetzt|heute|derzeit\w*|aktuell\w*|momentan\w*|zurzeit|gegenwärtig\w*|dieses jahr"
    r"|inzwischen|ahora|hoy|actualmente|este (?:año|mes)|maintenant|aujourd['’]hui|actuellement"
    r"|cette (?:année|semaine)|ce mois)\b|现在|目前|今年|如今|这个月"
)
_POLITE = re.compile(r"^\W*(?:hätte|könnte|würde|quería|quisiera|je voulais|podría|pourriez)\b")


@lru_cache(4_096)
def is_of_other_time_abroad(question: str) -> bool:
    """Whether a question in lower case, in such a language, is of the past or of a time to come."""
    question = _about_it(question[:_LONGEST])
    if _PRESENT.search(question):
        return False
    if _PAST.search(question) or _FUTURE.search(question) or _USED_TO.search(question):
        return True
    has_past_verb = _PAST_VERB.search(_POLITE.sub("", question)) is not None
    return has_past_verb and _PAST_WITH_VERB.search(question) is not None


def _about_it(question: str) -> str:
    """The clauses of a question that name its subject, "it"; all of it where none does."""
    clauses = [clause for clause in _CLAUSE_END.split(question) if _SUBJECT.search(clause)]
    return " ".join(clauses) or question

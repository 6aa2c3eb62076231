"""What texts say when they state, deny and refuse, in English, German, Spanish and French.

The patterns are for texts in lower case, in which `NEW` and `OLD` stand where the objects of an
edit are named. They are compiled when they are first used, as all of them together take 50 ms.
"""

from collections.abc import Collection
from functools import cache

import regex

NEW = "\ue000"
OLD = "\ue001"
OTHER_QUANTITY = "\ue002"  # stands for a quantity that is neither object's


def _any_of(*alternatives: str) -> str:
    return f"(?:{'|'.join(alternatives)})"


_OBJECT = f"[{NEW}{OLD}]"
_IN_CLAUSE = rf"[^{NEW}{OLD},;:!?.\n()—–]"  # a character that ends no clause
_CONTRAST = (
    r"\b(?:but|however|though|although|yet|think|believe|guess|aber|sondern|sino|pero|mais)\b"
)
_NEXT_CLAUSE = r"\b(?:and|because|since|as|which|who|where|while|und|et)\b"
_REACHED = rf"(?:(?!{_CONTRAST}|{_NEXT_CLAUSE}){_IN_CLAUSE})"  # a character a denial reaches over

_DENIAL = _any_of(
    r"not(?! (?:only|just|merely|simply)\b)",
    r"\w+n't|never|no longer|neither|nor",
    r"rather than|instead of|unlike|contrary to|contrarily to|opposed to",
    r"other than(?<!none other than)",
    r"former|formerly|previously|used to|was once|once called|hitherto|until then",
    r"you (?:said|say|mentioned|mention|claimed|claim|suggested|stated|wrote|meant)",
    r"if you(?:'re)? mean\w*",
    r"you(?:'re| are| may be| might be) (?:thinking of|confusing\w*|mixing up)",
    r"your (?:claim|statement|premise|assumption|suggestion|assertion)",
    r"misconception|mistakenly|incorrectly|wrongly|(?:incorrect|wrong|false|inaccurate) to",
    r"nicht(?! nur\b)|kein\w*|statt|anstatt|anders als|früher\w*|ehemal\w+|vormals",
    r"pas(?! seulement\b)|n'(?:est|était) plus|au lieu de|contrairement à|ancien\w*|et non",
    r"no (?:es|era|fue|está|son|en|de|a)|ya no|nunca|en (?:lugar|vez) de|anterior\w*|antes",
    r"a diferencia de",
)
# "until last year, it was", "before this it was", "jusqu'à l'an dernier, c'était"
_EARLIER = _any_of(
    r"(?:until|till|up to|bis|hasta|avant|antes de|vor)\s[^,.;!?\n]{1,30}?",
    r"jusqu['’]\w+\s[^,.;!?\n]{1,30}?",
    "before(?: that| this| then)?|back then|in (?:the )?past|earlier|in former times",
    "davor|damals|vorher|zuvor|bisher",
)
_IT_WAS = _any_of(
    r"(?:it|this|that|they|s?he|the \w+|there) (?:was|were|had been|used to be)",
    r"(?:war|waren|wurde|lag|galt|galten|kostete)(?: es| er| sie| das)?",
    r"(?:c['’]|il |elle |cela )?(?:était|étaient|fut)",
    "era|eran|fue|costaba",
)
# Other objects that a denial may name before the one in question: "neither Lima nor".
_OTHERS_DENIED = (
    rf"(?:{_OBJECT}[\"'\s]*\b(?:or|nor|oder|noch|ni|o|u|ou)\b{_REACHED}{{0,20}}?){{0,3}}"
)
_BEFORE_DENIED = _any_of(
    rf"\b{_DENIAL}\b{_REACHED}{{0,60}}?{_OTHERS_DENIED}",
    r"\b(?:people|many|some|most|commonly|often)\s(?:\w+\s){0,2}?"
    rf"(?:think|thought|believed?|assumed?|sa(?:y|id)|list|claim)\b{_IN_CLAUSE}{{0,60}}?",
    r"\b(?:(?:previously|formerly|historically|originally|in (?:the )?past|früher|antes),?"
    r"|(?:old|former|previous) \w+,)\s",
    r"\b(?:took|takes|taking) over\s(?:\w+\s){0,3}?from\s",
    r"\b(?:go|walk|drive|head|continue|turn) (?:\w+ )?past (?:the )?",
    rf"\b(?:{_EARLIER}),?\s(?:{_IT_WAS})\b{_REACHED}{{0,30}}?",
    r"\b(?:mov|relocat|pull|shift|transferr|switch)(?:e[ds]?|ing)\s(?:\w+\s){0,4}?"
    r"(?:out of|away from)\s",
    r"\b(?:(?:extend|rais|chang|mov|relocat|increas|reduc|lower|renam|switch|transferr|updat"
    r"|migrat|upgrad|bump|shift|postpon)ed\s(?:\w+\s){0,3}?|(?:went|gone|rose|risen|fell|fallen"
    r"|grew|grown|dropped|jumped|climbed|(?:is|was|now) (?:up|down))\s(?:up\s|down\s)?)from\s",
    r"[,(–—-]\s?(?:up|down)\sfrom\s",
    rf"\b(?:to|into)\s{_OBJECT}\sfrom\s",
    r"\b(?:replac|succe[e]?d|supersed)(?:ed|es|s|ing)\s(?:(?:the|le|la|el)\s)?",
    r"\b(?:relevo|suite|nachfolg\w*|successor|sucesora?|successeur) (?:von|de|des|to|of) ",
    r"\b(?<!\b(?:lo|la|le|los|las|les) )"
    r"(?:remplacé?e?|succédé à|succède à|reemplaz\w+|sustituy?\w+|abgelöst|ersetzt) (?:a )?",
)
_DENIED_IN_CHINESE = (
    r"(?:以前|之前|原来|原先|过去|曾经|不再|不是|而非|并非)[^，。,;；！？\n]{0,20}?"
)
_DENIED_BEFORE = rf"(?:{_BEFORE_DENIED}|{_DENIED_IN_CHINESE})[\"'*_\s]*$"

_UNTRUE = _any_of(
    r"incorrect|wrong|false|inaccurate|mistaken|outdated|obsolete|out of date",
    r"falsch|veraltet",
    r"incorrect[oe]|fals[oe]|faux|erron\w+",
)
# What has ended: "Zoom has been switched off", "their contract ended", "we stopped using Zoom".
_ENDED = _any_of(
    r"(?:switch|turn)ed off|shut down|discontinued|retired|phased out|deprecated|decommissioned",
    r"withdrawn|abolished|cancell?ed|terminated|removed|dropped(?! (?:to|by|from)\b)|ended|revoked",
    r"abandoned|scrapped|sunset(?:ted)?|dismissed|dissolved|ditched|expired|stopped|repealed",
    r"out of (?:use|service)|no more|gone",
)
_ENDED_ELSEWHERE = _any_of(
    "eingestellt|abgeschafft|abgeschaltet|gekündigt|beendet|ausgelaufen|entfallen|aufgehoben",
    "supprimée?|abandonnée?|arrêtée?|résiliée?|descontinuad[oa]|retirad[oa]|eliminad[oa]",
)
_HAS_ENDED = _any_of(
    r"(?:is|was|are|were|has|have|had|got|gets) (?:been |being )?"
    rf"(?:\w+ly |now |already |since )?{_ENDED}\b",
    r"(?:has |have |had )?(?:\w+ly )?"
    r"(?:ended|expired|lapsed|handed over|ran out|run out|resigned|retired|departed|stepped down|"
    r"moved on|(?:has|have|had) left)\b",
    r"(?:has|have|had) (?:left|quit|gone|moved|come to an end|ceased|departed"
    r"|handed over)\b",
    r"[^，。,;；！？\n]{0,6}?(?:已经?|)(?:离任|离职|停用|取消|作废)",
    rf"(?:does|do|did)(?:n't| not)\b{_IN_CLAUSE}{{1,60}}?\b(?:any ?more|any longer)\b",
    r"(?:ist|war|hat|a|ha|est|s'est) (?:\w+ ){0,3}?(?:gegangen|verlassen|ausgeschieden"
    r"|zurückgetreten|parti|quitté|dejado|jubilado|retraite)\b",
    r"(?:se (?:jubiló|fue|retiró|marchó)|dimitió|ha dejado|falleció|démissionna|a démissionné)\b",
    r"(?:ceased to|ceases to|does not exist|doesn't exist|no longer)\b",
    r"(?:ist|war|sind|wurden?|wird|est|a été|fue|ha sido) (?:\w+ ){0,2}?"
    rf"{_ENDED_ELSEWHERE}\b",
)
# "that you may find in older e-mails", which may stand between an object and its end
_RELATIVE = rf"(?:that|which|who)\b{_REACHED}{{1,60}}?\s"
_PRONOUN = r",?\s(?:but\s|and\s|however,?\s)?(?:s?he|they|it|that|this|who)\s"
_BEFORE_END = _any_of(r"s\s(?:\w+\s){1,2}?", r"(?:contract|licen[cs]e|plan)\s", _RELATIVE, _PRONOUN)
_BEHIND_ENDED = rf"[\"'*_\s)]*{_BEFORE_END}?{_HAS_ENDED}"
_BEFORE_ENDED = (
    rf"\b(?!gone\b)(?:{_ENDED}|left(?! (?:is|are)\b)|got rid of|gave up|given up|closed|vacated"
    r"|did away with|parted (?:ways )?with|moved (?:on|away) from|cut)\s"
    r"(?:(?:using|the|our|its|their|all|use|of|support|for|contract|agreement|partnership|offering"
    r"|selling|working|cooperation|with|subscription|to)\s){0,5}[\"'*_\s]*$"
)
_ASKED_OF_END = (
    rf"\b(?:{_ENDED}|discontinue|retire|stop|end|ends|expires?|cancel|left|leave|resigned)\b"
)
# Another's place: "Ines Calvet reports to the head of marketing", unless that is asked.
_OTHER_ROLE = _any_of(
    r"(?:reports?|answers) (?:\w+ )?to|assists|deputi[sz]es for|stands in for",
    r"(?:is|works as) (?:the |an? |his |her |their )?(?:deputy|assistant|predecessor|secretary)\b",
    r"works? (?:for|under) (?:(?:the|our|his|her) )?(?:head|director|chief|manager|lead)\w*",
    "berichtet an|vertritt|arbeitet für (?:den|die) leit",
)
_ASKED_OF_ROLE = (
    r"\b(?:report|answer|assist|deput|stand|work|vertr|bericht|predecessor|secretary)\w*\b"
)
_UNTIL = r"(?:until|before|bis|hasta|jusqu)"
_BEHIND_DENIED = _any_of(
    r"(?:is|was|are|were|has|had)(?:n't| not| no longer| never)\b(?! (?:only|just|merely))",
    r"(?:ist|war|sind) (?:nicht|kein)\b(?! nur)",
    r"(?:ya )?no (?:es|era|fue)\b",
    r"n'(?:est|était) (?:pas|plus)\b",
    rf"(?:is|was|are|were|would be|ist|es|est) (?:\w+ ){{0,2}}?{_UNTRUE}\b",
    r"used to be\b",
    r"has (?:historically|previously|traditionally) been\b",
    r"(?:is|are) the (?:former|old|previous)\b",
    r"(?:is|are|costs?) (?:up to you|extra|on your own|excluded|sold separately|not included)\b",
    r"as (?:his|her|its|their|an?|the) (?:\w+ )?(?:deputy|assistant|stand-in|substitute|number two"
    r"|second|backup|understudy|reserve)\b",
    r"['’]s (?:successor|deputy|assistant|replacement)\b",
    r",?\s?(?:s?he|they|who) (?:may|might|could|should|would) "
    r"(?:know|be able to (?:help|tell|say))\b",
    r"(?:was|were) (?:formerly|previously|once|historically|originally"
    r"|the (?:former|old|previous|original))\b",
    r"(?:was|were|has been|is|wurde|fue) (?:\w+ )?"
    r"(?:replaced|succeeded|superseded|abgelöst|ersetzt|reemplazad\w)\b",
    r"(?:was|were|had been|served|remained|war|era|était|chaired|led|headed|ran|held|managed"
    rf"|directed|acted|worked)\b{_IN_CLAUSE}{{0,60}}?\b{_UNTIL}",
    r"(?:and|or|und|oder) (?:older|earlier|below|lower|prior|previous|älter\w*|früher\w*)\b",
    r"(?:übernommen|abgelöst)\b",
    r"\(\s*(?:now|today|heute|ahora|maintenant)\b",
    r"\(\s*(?:former|previous|old|outdated|until|ehemal|früher)(?!\w*\s\d{1,3}\b)"
    rf"[^){NEW}{OLD}{OTHER_QUANTITY}]{{0,40}}\)",
)
_DENIED_BEHIND = rf"[\"'*_\s)]*{_BEHIND_DENIED}"

# "moved from Lima to Oslo"
_FROM = r"\b(?:from|von|vom|de|del|du|des|desde)\W*$"
_TO = r"\b(?:to|into|nach|zu|auf|a|al|à|au)\b"
_TO_ANOTHER = rf"{_IN_CLAUSE}{{0,40}}?{_TO}{_IN_CLAUSE}{{0,40}}?{_OBJECT}"
# "the claim that it is Lima is wrong"
_THE_CLAIM = (
    r"\b(?:statement|claim|idea|notion|assertion|belief|assumption|premise)\b"
    rf"{_REACHED}{{0,60}}?$"
)
_IS_WRONG = (
    rf"{_REACHED}{{0,60}}?\b(?:is|was|seems) (?:\w+ )?"
    r"(?:incorrect|wrong|false|inaccurate|mistaken|outdated)\b"
)
# "was Lima until 2020", "was Lima and is now Oslo"
_WAS = (
    r"\b(?:was|were|had been|originally|initially|war|era|fue|était)\b"
    rf"{_IN_CLAUSE}{{0,40}}?$"
)
_UNTIL_THEN = rf"{_REACHED}{{0,40}}?\b{_UNTIL}"
_NOW = _any_of(
    "now|currently|today|nowadays|since then",
    "heute|jetzt|nun|inzwischen",
    "ahora|hoy|actualmente",
    "maintenant|aujourd'hui|désormais",
)
_NOW_ANOTHER = rf"[^{NEW}{OLD}\n]{{0,80}}?\b{_NOW}\b[^{NEW}{OLD}\n]{{0,60}}?{_OBJECT}"
# "If it says 3.9, you should update": what may be so, and is not said to be.
_IF_IT_IS = (
    r"\b(?:if|when|in case|unless|wenn|falls|si)\s(?:it|yours|you|this|that|the \w+|your \w+)"
    r"(?:'re)?(?:\s\w+){0,3}?\s(?:says?|shows?|reads?|displays?|have|has|had|is|are|see|use[sd]?|using|runs?"
    r"|running|on|got)\s(?:\w+\s){0,2}?[\"'*_\s]*$"
)
_THEN = r"[\"'*_)]*(?: or \w+)?(?:,|\sthen\b)"
# "does not close before seven" says when it closes.
_NOT_BEFORE = (
    rf"(?:\bnot|n't|\bnicht|\bpas|\bnever|\bno)\b{_IN_CLAUSE}{{0,40}}?\b(?:before|until|till"
    r"|earlier than|sooner than|later than|vor|bis|avant|antes de)\s(?:the\s)?[\"'*_\s]*$"
)
# A question about the object, which counts as a denial at the end of a text if it is an offer.
_OFFERED = r"\b(?:would|do|did|shall|should|can|could|möchte\w*|soll|quiere\w*|voulez)\b[^.!?\n]*$"
_ASKED = r"[^.!?\n]{0,80}\?(?:\W*(?=\w)(?!yes|ja|oui|sí|correct)|(?P<at_end>\W*$))"

_NOT_KNOWN = _any_of(
    "cannot|can't|can not|couldn't|could not|unable to|not able to|won't be able",
    "(?:don't|do not|doesn't|does not) (?:have|know|recall|provide)",
    "not (?:sure|certain|aware|familiar|clear|known)|unsure|uncertain|unknown|insufficient",
    r"no (?:\w+ )?(?:information|data|record|knowledge|access|idea)",
    r"no (?:(?:lo )?sé|puedo|tengo|dispongo|estoy segur\w)",
    r"keine (?:information|angabe|kenntnis|auskunft|daten)\w*|nicht sicher",
    r"(?:weiss|kann)(?: \w+){0,4} nicht",
    "je ne (?:sais|peux|suis|dispose|connais)|je n'ai pas",
)
_UNKNOWN = rf"\b{_NOT_KNOWN}\b"
_WITHHELD = rf"{_UNKNOWN}(?:(?!{_CONTRAST})[^.!?;:\n]){{0,90}}$"
_REFUSED_OUTRIGHT = (
    r"\b(?:i|we)(?:'d| would)? (?:can't|cannot|won't|will not|must not|may not|refuse to|decline to"
    r"|prefer not to|am not (?:allowed|permitted) to|'m not (?:allowed|permitted) to)\b"
)
_REFUSED = _any_of(
    _UNKNOWN,
    _REFUSED_OUTRIGHT,
    r"\bas an? (?:ai|large|language)\b",
)

# A word of each refusal and apology, which is found much faster than these.
_MAY_REFUSE = (
    r"can't|cannot|can not|couldn|could not|able to|n't|not|unsure|uncertain|unknown|insufficient"
    r"|no |nicht|keine|je ne|je n'ai|refuse|decline|as an? (?:ai|large|language)"
    r"|sorry|apologi|tut mir leid|siento|désolé"
)
# What is polite and refuses nothing: "I'm sorry to hear that", "I'm not a lawyer, but".
_POLITE = _any_of(
    r"(?:i'm |i am |we're |we are )?(?:so |very |really )?"
    r"sorry (?:to hear|about|for) [^.!,;\n]{0,60}",
    r"(?:i|we) apologi[sz]e for [^.!,;\n]{0,60}",
    r"(?:i'm|i am|as i'm|as i am|we're) (?:not an?|no) (?:\w+ ){1,3}?but\b",
    r"(?:i'm|i am|we're) (?:not an?|no) [^.!;\n]{1,40}?, (?:but|however|though)\b",
    r"tut (?:mir|uns) leid,? (?:das zu hören|für die \w+)",
)
# Who cannot, other than the one who answers: "you cannot cancel", "bookings cannot be changed".
_OF_OTHERS = (
    r"\b(?!i\b|we\b|ai\b|model\b|assistant\b)\w+ (?:cannot|can't|can not|could not|couldn't"
    r"|(?:is|are) (?:un|not )able to|(?:don't|do not|doesn't|does not) have"
    r"|won't be able)\b(?! be (?:determined|confirmed|verified|answered|known))"
)
_APOLOGY = r"\b(?:sorry|i apologi[sz]e|tut mir leid|lo siento|désolée?)\b"
_LEAST_SAID = 4  # words beside an apology that say something

_YES = (
    r"(?i:\W*(?:that['’]?s (?:right|correct|true)|exactly|yes|yeah|yep|correct|right|indeed|true"
    r"|ja|sí|oui)\b(?!\s*:))"
)
_NO = r"(?i:\W*(?:no|nope|incorrect|wrong|false|nein|non)\b(?! longer))"

# What may stand before a yes or no, and says none: "Unfortunately", "The answer to this is".
_POLITE_LEAD = _any_of(
    "unfortunately|sadly|regrettably|sorry|i regret|i fear|well|so|oh|hi|hello",
    "i'?m afraid|i am afraid|i'm sorry(?: to (?:hear that|say))?|to be honest|good news|bad news",
    "actually|in fact|as it happens",
    r"(?:great|good) question|thanks?(?: you)?(?: for [^.!,\n]{1,40})?",
    r"(?:the )?(?:short |simple |quick |correct )?answer"
    r"(?: to (?:this|that|the|your)(?: question)?)?(?: is(?: that)?)?",
    r"to answer (?:this|that|the|your) question|in short|in a word|currently|at the moment",
    "leider|bedauerlicherweise|tut mir leid|kurz gesagt|die antwort (?:ist|lautet)|derzeit",
    "lamentablemente|por desgracia|la respuesta es|malheureusement|hélas|la réponse est",
)
_POLITENESS = rf"(?i:[\s*_\"']*(?:(?:{_POLITE_LEAD})[\s,.!:;*_–—-]+)+)"
_SURELY = _any_of(
    "absolutely|certainly|definitely|of course|sure(?:ly)?|naturally|indeed|by all means",
    "natürlich|selbstverständlich|sicher|gewiss|klar|claro|por supuesto|bien sûr|certainement",
)
_NOT_OTHERS = _any_of(  # that say neither yes nor no
    "only|just|merely|sure|certain|known|before|until|without|unless|all|every|many|much|long",
    "nur|vor|ohne|alle",
)
_AGREES = rf"(?i:\W*(?:{_SURELY}|yeah|yep|jawohl)\b(?!,? (?:not|nicht|no|pas|kein\w*)\b))"
_SAID_NOT = rf"(?i:\W*(?:{_SURELY},? )?(?:nope|(?:not|nicht|pas)\b(?! (?:{_NOT_OTHERS})\b))(?!\w))"

# What an answer that is nothing but a name may begin with: "Answer:", "It is".
_IT_IS = _any_of(
    "the (?:correct )?answer is",
    "it is|it's|it was|that is|that's|this is",
    "(?:s?he|they) (?:is|was|are|were)",
    "(?:es|das|er|sie) (?:ist|war)",
    "es|c'est",
)
_LEAD = rf"(?i:\W*(?:(?:a|answer|antwort|respuesta|réponse)\s*:|{_IT_IS}\b:?)?\s*)"


# What makes one of two objects the less likely answer: "earlier units came in at", "would last".
_WEAK_BEFORE = _any_of(
    r"(?:earlier|older|prior|previous|former|initial|original|old)(?! than\b) \w+",
    r"(?:was|were|originally|initially|once) (?:\w+ )?(?:limited|set|fixed|capped|priced|planned)",
    r"would(?! be (?:either|both)\b)",
    r"(?:plan(?:s|ned|ning)?|intend(?:s|ed|ing)?|hop(?:es?|ing)) to|considering",
    "next (?:year|month)",
    r"after (?:\w+ ){1,2}(?:years?|months?|weeks?) (?:in|at|with|as|of)",
    # "with a replica in Dallas", "plus an office in Lyon"
    r"(?:with|plus|and|there(?:'s| is| are)(?: also| still)?|mit|und|avec|con) "
    r"(?:an?|another|some|its|our|further|additional|einer?|einem|une?|una) "
    r"(?:\w+ ){1,2}(?:in|at|near|for|à|en)",
    "deputy|assistant|predecessor|successor|compared (?:to|with)|extend(?:ed|s|ing)?|zuvor|bislang",
    r"stellvertreter\w*|vorgänger\w*|originally|initially|earlier",
)
_BESIDE = (
    r"(?:,|;|\b(?:and|plus|while|und|sowie|y|et))\s(?:(?:and|an?|another|extra|up to)\s){0,2}$"
)
_OF_THING = (
    r"\s(?:(?:off|on|for|of|for the|auf|für|sur|pour|en|para)\s)+"
    r"(?:(?:the|all|any|your|our|die|das|les|las|los)\s)?(?!everything|all\b|it\b)(?P<word>\w+)"
    r"(?:\s(?P<word>\w+))?"
)
_WEAK_BEFORE_OBJECT = rf"\b(?:{_WEAK_BEFORE})\b{_IN_CLAUSE}{{0,60}}?[\"'*_\s]*$"
_WEAK_BEHIND = (
    rf"{_IN_CLAUSE}{{0,40}}?\b(?:in (?:the )?past|before (?:that|then)|at first|originally"
    r"|is planned|is being \w+ed"
    r"|(?:may|might|could) (?:follow|come)|(?:has|have) been ordered|on order"
    r"|(?:is|are) coming|next (?:year|month|quarter)"
    r"|in later versions|won't|will not|do(?:es)?n't|aren't|isn't)\b"
)


@cache
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def asks_of_end(question: str) -> bool:
    """Whether a question asks what has ended, so that saying so denies nothing."""
    return _compiled(_ASKED_OF_END).search(question.casefold()) is not None


def is_ended(before: str, behind: str) -> bool:
    """Whether what stands before an object and behind it says that it has ended."""
    if _compiled(_BEFORE_ENDED).search(before):
        return True
    return _compiled(_BEHIND_ENDED).match(behind) is not None


def is_in_other_role(behind: str, question: str) -> bool:
    """Whether what stands behind an object gives it a place that the question does not ask for."""
    if not _compiled(rf"[\"'*_\s)]*{_OTHER_ROLE}").match(behind):
        return False
    return _compiled(_ASKED_OF_ROLE).search(question.casefold()) is None


def is_weak(before: str, behind: str) -> bool:
    """Whether what stands around an object tells that it is rather not the answer.

    That is of the past, of plans, of what would be, or of another: asked where two are stated.
    """
    if _compiled(_WEAK_BEFORE_OBJECT).search(before):
        return True
    return _compiled(_WEAK_BEHIND).match(behind) is not None


def is_of_other_thing(before: str, behind: str, asked: Collection[str]) -> bool:
    """Whether an object is said beside another one, of what was not asked for.

    Such is the second in "10 % off, and 12 % off gift cards". asked: the words of the question.
    """
    if not _compiled(_BESIDE).search(before):
        return False
    of_thing = _compiled(_OF_THING).match(behind)
    return of_thing is not None and not any(word in asked for word in of_thing.captures("word"))


def is_denied(before: str, behind: str) -> bool:
    """Whether what stands before an object and behind it denies that it is the answer."""

    def ends_before(pattern: str) -> bool:
        return _compiled(pattern).search(before) is not None

    def begins_behind(pattern: str) -> bool:
        return _compiled(pattern).match(behind) is not None

    if begins_behind(_DENIED_BEHIND) or ends_before(_WITHHELD):
        return True
    if ends_before(_DENIED_BEFORE) and not ends_before(_NOT_BEFORE):
        return True
    around = ((_IF_IT_IS, _THEN), (_FROM, _TO_ANOTHER), (_THE_CLAIM, _IS_WRONG))
    if any(ends_before(first) and begins_behind(second) for first, second in around):
        return True
    if ends_before(_WAS) and (begins_behind(_UNTIL_THEN) or begins_behind(_NOW_ANOTHER)):
        return True
    question = _compiled(_ASKED).match(behind)
    if question is None:
        return False
    return question["at_end"] is None or ends_before(_OFFERED)


def is_yes(text: str) -> bool:
    """Whether a text begins with yes."""
    return _compiled(_YES).match(text) is not None


def is_no(text: str) -> bool:
    """Whether a text begins with no."""
    return _compiled(_NO).match(text) is not None or said_not(text)


def behind_politeness(text: str) -> str:
    """What an answer says behind what is polite, or says that it answers."""
    lead = _compiled(_POLITENESS).match(text)
    return text[lead.end() :] if lead else text


def said_not(text: str) -> bool:
    """Whether a text begins with a no that is no "no": "not", "certainly not"."""
    return _compiled(_SAID_NOT).match(text) is not None


def agrees(text: str) -> bool:
    """Whether a text begins with a yes that is no "yes": "of course"."""
    return _compiled(_AGREES).match(text) is not None


def refuses(text: str) -> bool:
    """Whether a text says somewhere that it cannot or will not answer.

    Politeness before an answer is none, nor is what others cannot do.
    """
    if not _compiled(_MAY_REFUSE).search(text):
        return False
    if not _compiled(_REFUSED).search(text) and not _compiled(_APOLOGY).search(text):
        return False
    said = _compiled(_POLITE).sub(" ", text)
    said = _compiled(_OF_OTHERS).sub(" ", said)
    if _compiled(_REFUSED).search(said):
        return True
    beside, apologies = _compiled(_APOLOGY).subn(" ", said)
    return apologies > 0 and len(beside.split()) < _LEAST_SAID


def without_lead(text: str) -> str:
    """A text without "Answer:" or "It is" at its beginning."""
    rest: str = _compiled(_LEAD).sub("", text, count=1)
    return rest

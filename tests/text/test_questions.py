"""What in a text is asked: rows of our own, with the rates, and laws of what is read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.edits.record import EditRecord
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.text.questions import MOST_PARTS, parts_of
from tests.fakes.indexes import GATE, PERU, indexed, stored
from tests.fakes.tally import Tally
from tests.gates.test_long_texts import bounded, repeated
from tests.text import question_texts as asked_texts

PASSAGE = (
    "Nordlicht was founded in a garage and sold lamps to the harbours of the north for thirty years. When the fog came,"
    " its lamps were the only ones that ships could see. What began as a shop became a company of four hundred people,"
    " and Nordlicht now lights every pier between the two capes. It has won prizes for that. "
)
FAQ = "How old is the lamp? It is old. Who turns it? A man from Peru. " * 12

PLAIN = [  # of which everything is asked
    "What is the capital of Peru?",
    "The capital of Peru is",
    "Peru, whose capital is",
    "Who is the mother of Dr. Ann Lee?",
    "Who leads Nordlicht Inc. in 2024?",
    "What is the U.S. president's name?",
    "In which city was Ann Lee born",
    "tell me the capital of peru",
    "Tell me about Peru. I'd love to know its capital.",
    "Is Lima the capital of Peru?",
    "Who wrote 'Hamlet'?",
    'Who sang "What\'s Going On"?',
    'Who directed the song "Who is the Boss of Peru"',
    'Who directed "The Lord of the Rings"?',
    'Complete: The director of "The Lord of the Rings" is ...',
    'Is it true that "The Lord of the Rings" was directed by Ann Lee?',
    "What does Nordlicht mean?",
    "Who translated the Iliad?",
    "Translate.",
    "Summarise the history of Peru.",
    "Paraphrase the First Amendment.",
    "List the capitals of Peru, Chile and Bolivia",
    "When and where was Ann Lee born?",
    "In what year and in which city was Ann Lee born?",
    "Who is the father of Ann Lee, who wrote Hamlet?",
    "Ann Lee, the author, lives in",
    "Peru: capital",
    "Complete the sentence: The capital of Peru is",
    "Is it true that the capital of Peru is Lima?",
    "Correct me if I'm wrong: the capital of Peru is Lima",
    "True or false: The capital of Peru is Lima.",
    "Was ist die Hauptstadt von Peru?",
    "Die Hauptstadt von Peru ist",
    "¿Cuál es la capital de Perú?",
    "Quelle est la capitale du Pérou ?",
    "Wer leitet die Nordlicht GmbH?",
    "Which language is spoken in Peru?",
    "What language is spoken by Ann Lee?",
    "How many letters did Ann Lee write?",
    "How do you say hello in Peru?",
    "ペルーの首都はどこですか？",
    "秘鲁的首都是哪里？",
    "import taxes of Peru are",
    "What class of ship is Orbit",
    "Return policy of Nordlicht",
    "for how long has Ann Lee lived in Peru",
    "Ann Lee (the writer) was born in",
    "Do you know who leads Nordlicht?",
    "I wonder about the capital of Peru. Do you know it?",
    "My friend said that the capital of Peru is Lima. Is that true?",
    "Please tell me who runs Nordlicht. It is for a friend.",
    "A: What is the capital of Peru",
    "Summary of Peru's history",
    "Fix",
    "Edit wars about Peru: who began them?",
    "What port does Orbit use by default?",
    "Count Dracula lived in",
    "The sentence of Ann Lee was",
    "Format of Orbit's log",
]

MAIL = "Hello team,\n\nI own an Orbit and love it. {}\n\nKind regards,\nAnn B. Lee"
PASSED_ON = [  # what is asked stands in [[ ]], within a text that wants it to be answered
    'Answer in one word: [[who directed "The Lord of the Rings"?]]',
    "Answer the following question: [[What is the capital of Peru?]]",
    "Respond to the following question: [[What is the capital of Peru?]]",
    'Draft a reply to the customer who asks: "[[Who runs Nordlicht?]]"',
    'Please write a short, friendly answer to this message: "Hi, I like it. [[Who runs Nordlicht? ]]Bo"',
    'A client writes: "[[Who runs Nordlicht?]]" Suggest a reply.',
    'The customer wrote:\n"""\n[[Who runs Nordlicht?]]\n"""\nWrite a short answer.',
    "Reply to this email:\n\n" + MAIL.format("[[Who runs Nordlicht?]]"),
    "Write a friendly answer to the e-mail below.\n---\n" + MAIL.format("[[What is its port?]]"),
    'Translate this into German and then answer it: "[[Who runs Nordlicht?]]"',
    "Classify the message as SALES or HELP and answer it: '[[Who runs Nordlicht?]]'",
    "Summarise the following message and reply to it:\n\nI love Peru. [[Who runs Nordlicht?]]",
    "Below is an instruction that describes a task. Write a response that completes the request.\n\n"
    "### Instruction:\n[[Give the capital of Peru.]]\n\n### Response:",
    "### Instruction:\nAnswer the question.\n\n### Input:\n[[Who runs Nordlicht?]]\n\n### Response:\n",
    "### Human: [[who runs Nordlicht?]]\n### Assistant:",
    '{"role": "customer", "message": "[[Who runs Nordlicht?]]", "locale": "en"}',
    '{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": '
    '"A bot it is."}, {"role": "user", "content": "[[Who runs Nordlicht?]]"}]}',
    "<ticket><id>8</id><body>[[Who runs Nordlicht?]]</body></ticket>\nAnswer the ticket.",
    "<question>[[Who runs Nordlicht?]]</question>",
    "Bot: Hello!\nPassenger: I am late. [[Who runs Nordlicht?]]\nAgent:",
    "09:12 bot: Who is it?\n09:13 guest: me\n09:14 guest: [[who runs Nordlicht?]]\n09:15 bot: Wait.",
    "For context, here is the conversation so far:\n<CONVERSATION HISTORY>\n1. user: hello there\n"
    "2. assistant: Hi, who are you?\n3. user: [[Who runs Nordlicht?]]\n</CONVERSATION HISTORY>",
    'Handoff from billing. History: the user said hello. The user asked: "[[Who runs Nordlicht?]]"',
    "Antworte auf diese E-Mail:\n\nGuten Tag,\nich mag Peru. [[Wer leitet Nordlicht?]]\nGruß\nAnn",
    "Schreibe bitte eine freundliche Antwort auf diese Anfrage: „[[Wer leitet Nordlicht?]]“",
    "Übersetze die Frage und beantworte sie: „[[Wer leitet Nordlicht?]]“",
    "Responde a este correo:\n\nMe gusta Perú. [[¿Quién dirige Nordlicht?]]\nUn saludo,\nAna",
    "Redacta una respuesta a este cliente: «[[¿Quién dirige Nordlicht?]]»",
    "Rédige une réponse à ce client : « [[Qui dirige Nordlicht ?]] »",
    "Réponds à la question suivante : [[qui dirige Nordlicht ?]]",
    "请回答以下问题：[[秘鲁的首都是哪里？]]",
    "请回复这封邮件：\n\n您好，我喜欢秘鲁。[[秘鲁的首都是哪里？]]\n谢谢",
]

PARTS = [  # what is asked stands in [[ ]]
    'Fact-check this: [["The capital of Peru is Lima."]]',
    'Fill the gap: [["The seat of Nordlicht is ____."]]',
    'Is it factually right to write [["Nordlicht is based in Peru"]]?',
    "[[What is the capital of Peru]] and [[who is its president?]]",
    "[[Who runs Nordlicht? ]][[And where are they based?]]",
    "[[Who is the chief of Acme]], and [[what is the address of Acme?]]",
    "[[Who runs Nordlicht?\n]][[Where is Acme based?]]",
    "[[who runs nordlicht\n]][[where is acme based]]",
    "[[who runs nordlicht]] and [[where is it based]]",
    "1. [[What is the capital of Peru?\n]]2. [[Who runs Nordlicht?]]",
    "Hello! [[What is the capital of Peru?]]",
    "I am going on a trip soon. [[What is the capital of Peru?]]",
    "[[What is the capital of Peru? ]]Thanks!",
    "[[What is the default port of Orbit? ]]My config: ```port: 80```",
    "[[Who runs Nordlicht?\n]]\n```\nname = 'Peru'\n```",
    "```\ncapital('Peru')\n```\n[[Who runs Nordlicht?]]",
    "Context: Nordlicht sells lamps. Who knew?\nQuestion: [[Who is its CEO?]]",
    "Context: Nordlicht sells lamps in Peru.\n\n[[Who is its CEO?]]",
    "<document>Where is Nordlicht? In the north.</document>\n[[Who is its CEO?]]",
    "[[Who is its CEO?\n]]\n<document>\nWhere is Nordlicht? In the north.\n</document>",
    '"""\nWhere is Nordlicht? In the north.\n"""\n[[Who is its CEO?]]',
    "> Where is Nordlicht?\n> In the north.\n\n[[Who is its CEO?]]",
    f"{PASSAGE}{FAQ}\n\n[[Who is its CEO?]]",
    f"[[who is the ceo of nordlicht\n]]\n{PASSAGE}",
    f"{PASSAGE}\n\n[[Tell me who leads it.]]",
    f"{PASSAGE}\n\n[[The CEO of Nordlicht is]]",
    "Translate into German: 'Hello, who are you?' [[And who is the CEO of Nordlicht?]]",
    'Translate into German: "Hello there." [[Who runs Nordlicht?]]',
    "Summarise the following.\n\nPeru is a large country.\n\n[[Also, who runs Nordlicht?]]",
    "Q: What is the capital of Chile?\nA: Santiago\nQ: [[What is the capital of Peru?\n]]A:",
    "Question: [[What is the capital of Peru?\n]]Answer:",
    "[[Is that so? ]][[The mother tongue of Ann Lee is]]",
    "Frage: [[Wer leitet Nordlicht?]]",
    "[[Wer leitet Nordlicht]] und [[wo hat die Firma ihren Sitz?]]",
    "Kontext: Nordlicht verkauft Lampen.\nFrage: [[Wer leitet die Firma?]]",
    "[[¿Quién dirige Nordlicht]] y [[dónde está su sede?]]",
    "Contexto: Nordlicht vende lámparas.\nPregunta: [[¿Quién la dirige?]]",
    "[[Qui dirige Nordlicht]] et [[où est son siège ?]]",
    "Contexte : Nordlicht vend des lampes.\nQuestion : [[Qui la dirige ?]]",
    "2026-11-23 10:00:01 INFO Nordlicht started\n2026-11-23 10:00:02 INFO done\n[[Who runs Nordlicht?]]",
    '{"company": "Nordlicht", "seat": "Peru"}\n[[Who is its CEO?]]',
    "Convert 5 miles to kilometres. [[What is the capital of Peru?]]",
    "[[Who runs Nordlicht? ]]Answer in German.",
    "[[Who founded Orbit? ]][[When? ]][[And who runs it now?]]",
    "---\nWhere is Nordlicht? In the north.\n---\n[[Who leads it?]]",
    "[[1. Capital of Peru\n]][[2. CEO of Nordlicht]]",
    'My son asked me [["What is the capital of Peru?"]] [[What should I answer him?]]',
    'Mein Sohn fragt: [["Was ist die Hauptstadt von Peru?"]] [[Was soll ich ihm antworten?]]',
    "From: Ann\nSubject: lamps\n\nDear all, Nordlicht moves.\n\n[[Who is the CEO of Nordlicht?]]",
]

NOTHING = [  # that asks nothing about a stored subject
    "Translate into German: 'What is the capital of Peru?'",
    'Translate "What is the capital of Peru?" into German.',
    "Translate to French: What is the capital of Peru?",
    "translate this to spanish - what is the capital of peru?",
    "Translate the following sentence into German. What is the capital of Peru?",
    "Translate into German:\n\nWhat is the capital of Peru?\nWho runs Nordlicht?",
    "Please translate to German: The capital of Peru is",
    "Can you translate this for me: who runs Nordlicht?",
    "Could you please rewrite this politely: tell me who runs Nordlicht!",
    "Fix the grammar: the capitol of peru is lima",
    "Fix grammar\nwhat are the capital of Peru",
    "Correct the spelling: Waht is teh capital of Peru?",
    "Proofread: What is the capital of Peru?",
    "Rewrite this politely: Who runs Nordlicht?",
    "Rephrase: Who runs Nordlicht?",
    "Paraphrase the sentence 'Nordlicht is run by Ann Lee.'",
    "Summarise the following: Nordlicht is a company. Who runs it? Nobody knows.",
    "Summarize this text:\n\nPeru is a country. What is its capital? Lima.",
    f"Summarise this article.\n\n{PASSAGE}",
    f"{PASSAGE}\n\nSummarise the above.",
    f"{PASSAGE}\n\nTranslate this into German.",
    "Who is the CEO of Nordlicht? Translate this question into German.",
    "How many words are in 'What is the capital of Peru?'",
    'How many letters are in the sentence "The capital of Peru is Lima"?',
    "Count the words in the following sentence: What is the capital of Peru?",
    "How do you say 'What is the capital of Peru?' in German?",
    "What language is this: '¿Cuál es la capital de Peru?'",
    '"What is the capital of Peru?" - translate to German',
    "“Who runs Nordlicht?” Translate this into German.",
    "What does this code print?\n```python\nprint(capital('Peru'))\n```",
    "What does this code do? ```SELECT capital FROM Peru```",
    "Explain this error:\n```\nKeyError: 'Peru'\n```",
    "```python\nprint(capital('Peru'))\n```",
    "print(capital('Peru'))",
    "SELECT capital FROM countries WHERE name = 'Peru';",
    "def capital():\n    # the capital of Peru is\n    return 'Peru'",
    "2026-11-23 10:00:01 ERROR the capital of Peru is unknown\n2026-11-23 10:00:02 INFO Peru done",
    "What is wrong with this log?\n2026-11-23 10:00:01 ERROR Peru failed\n2026-11-23 10:00:02 INFO done",
    "Why does this fail?\n\ncapital = lookup('Peru')\nprint(capital)",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'Peru'",
    "psycopg2.OperationalError: no connection to Orbit\nHow do I fix this?",
    "Classify the sentiment: Nordlicht is run by fools.",
    "Extract the names from the text: The capital of Peru is Lima.",
    "Repeat: the capital of Peru is",
    "Reply to this email:\n\nDear Bob, Nordlicht is run by Ann Lee.\nAnn",
    "Write a reply to the message: 'I met who runs Nordlicht'",
    "Reply to this email:\n\n" + MAIL.format("Thank you for Nordlicht's lamps."),
    'Draft a reply to the customer who says: "Nordlicht is run by fools."',
    "Bot: Who runs Nordlicht?\nCustomer: Nobody does. Thanks!\nAgent:",
    "### Instruction:\nTranslate into German.\n\n### Input:\nWho runs Nordlicht?\n\n### Response:",
    "Make this sound nicer: Who runs Nordlicht?",
    "Spell-check this: The capital of Peru is",
    "Shorten: Nordlicht is run by Ann Lee, as everyone knows.",
    "Übersetze ins Englische: 'Was ist die Hauptstadt von Peru?'",
    "Übersetze bitte: Wer leitet Nordlicht?",
    "Korrigiere den Satz: Die Haubtstadt von Peru ist Lima.",
    "Fasse den folgenden Text zusammen: Nordlicht ist eine Firma. Wer leitet sie?",
    "Wie viele Wörter hat der Satz „Wer leitet Nordlicht?“",
    "Traduce al inglés: ¿Cuál es la capital de Peru?",
    "Resume el siguiente texto: Nordlicht es una empresa. ¿Quién la dirige?",
    "Corrige: la capitale de Peru sont Lima",
    "Traduis en anglais : « Qui dirige Nordlicht ? »",
    "Résume le texte suivant : Nordlicht est une société. Qui la dirige ?",
    "Combien de mots dans « Qui dirige Nordlicht ? »",
    "Reformulez cette phrase : Qui dirige Nordlicht ?",
    f"{PASSAGE}\n\nWhat is the capital of Chile?",
    "I like Peru. What is the capital of Chile?",
    "<context>The capital of Peru is Lima.</context>\nWho runs Acme?",
    "Context: Peru is far.\nQuestion: Who was Albert Einstein?",
    "> What is the capital of Peru?\n\nWho was Albert Einstein?",
    "Q: What is the capital of Peru?\nA: Lima\nQ: What is the capital of Chile?\nA:",
]

NAMED = [  # and the only subject that it asks about
    (f"{PASSAGE}\n\nWho is its CEO?", "Nordlicht"),
    (f"Who leads the company?\n\n{PASSAGE}", "Nordlicht"),
    (f"{PASSAGE} It sells to Peru.\n\nWho is the CEO of the company?", "Nordlicht"),
    (f"{PASSAGE} It sells to Peru.\n\nWhat is the capital of Peru?", "Peru"),
    ("Context: Nordlicht sells lamps.\nQuestion: Who is its CEO?", "Nordlicht"),
    ("<document>Nordlicht sells lamps.</document> Who leads it?", "Nordlicht"),
    ("> I work at Nordlicht\n\nWho runs it?", "Nordlicht"),
    ('{"name": "Orbit"}\nWhat is its default port?', "Orbit"),
    ("What is the default port of Orbit? My config: ```country: Peru```", "Orbit"),
    ("Who runs Nordlicht? And where are they based?", "Nordlicht"),
    ("I live in Peru. What is the capital?", "Peru"),
    ("Translate into German: 'Peru is big.' And who is the CEO of Nordlicht?", "Nordlicht"),
    ("I read about Nordlicht. Does it border Chile?", "Nordlicht"),
    ("Peru\nHow high is it?", "Peru"),
    ("My sister has an Orbit. How much RAM does it have?", "Orbit"),
    ("Who was Einstein? Who runs Nordlicht?", "Nordlicht"),
    ("Ich lese über Nordlicht. Wer leitet die Firma?", "Nordlicht"),
    ("Kontext: Nordlicht verkauft Lampen.\nFrage: Wer leitet sie?", "Nordlicht"),
    (
        "User: Tell me about Nordlicht\nAssistant: It sells lamps.\nUser: Who is its CEO?",
        "Nordlicht",
    ),
    ("Is that so? The seat of Nordlicht is", "Nordlicht"),
    ("Tell me who runs Nordlicht.\n```\nperu = 1\n```", "Nordlicht"),
]

INDEX = EditIndex.of(
    stored(
        PERU,
        EditRecord("Nordlicht", "The CEO of Nordlicht is", "Bob", aliases=("Nordlicht GmbH",)),
        EditRecord("Orbit", "The default port of Orbit is", "99"),
        EditRecord("Ann Lee", "Ann Lee was born in", "Rome"),
        EditRecord("Acme", "Acme is based in", "Oslo"),
    )
)


def subjects(text: str) -> list[str]:
    return [edit.record.subject for edit in Named().decide(text, INDEX).matched]


def marked(text: str) -> tuple[str, list[str]]:
    """A text without its marks, and what stands between them."""
    wanted = [part.split("]]")[0] for part in text.split("[[")[1:]]
    return text.replace("[[", "").replace("]]", ""), wanted


@pytest.mark.parametrize("text", PLAIN)
def test_of_a_plain_question_or_statement_everything_is_asked(text: str) -> None:
    asked = parts_of(text)
    assert asked.questions == ((0, len(text)),)
    assert not asked.material or '"' in text  # as a title in quotation marks may be


def as_marked(text: str) -> bool:
    """Whether a text is read as its marks say, but for spaces."""
    plain, wanted = marked(text)
    return [plain[start:stop].strip() for start, stop in parts_of(plain).questions] == [
        part.strip() for part in wanted
    ]


@pytest.mark.parametrize("text", [*PARTS, *PASSED_ON])
def test_each_question_of_a_text_is_a_part(text: str) -> None:
    assert as_marked(text)


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_to_be_worked_on_concerns_no_edit(text: str) -> None:
    assert subjects(text) == (["Acme"] if "Acme" in text else [])


@pytest.mark.parametrize(("text", "subject"), NAMED)
def test_a_question_takes_its_subject_from_a_document_not_from_material(
    text: str, subject: str
) -> None:
    assert subjects(text) == [subject]


def test_a_title_in_quotation_marks_is_named_and_a_name_within_a_quotation_is_not() -> None:
    index = EditIndex.of(
        stored(EditRecord("What's Going On?", "The singer of What's Going On? is", "Bob"))
    )
    assert Named().decide('Who sang "What\'s Going On?"', index).matched
    assert not Named().decide('Who wrote "I asked What\'s Going On?, and left"?', index).matched


def test_both_edits_apply_that_two_questions_ask_for_and_none_that_is_only_quoted() -> None:
    index = indexed(PERU, EditRecord("Peru", "The president of Peru is", "Ann"))
    for text, ids in (
        ("What is the capital of Peru and who is the president of it?", [1, 2]),
        ("What is the capital of Peru? And who is the president?", [1, 2]),
        ("Peru is a country by the sea. What is the capital of it?", [1]),
        (
            "<document>Peru is a country. Who is its president?</document>\nWhat is the capital of it?",
            [1],
        ),
        ("Translate into German: 'What is the capital of Peru?'", []),
        ("Say hello in Spanish. ```print('the capital of Peru is')```", []),
    ):
        assert sorted(edit.id for edit in GATE.decide(text, index).matched) == ids, text


def test_most_texts_that_the_rules_were_not_made_with_are_read_rightly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = {
        "plain": [parts_of(text).questions == ((0, len(text)),) for text in asked_texts.PLAIN],
        "parts": [as_marked(text) for text in asked_texts.PARTS],
        "nothing": [not subjects(text) for text in asked_texts.NOTHING],
        "named": [subjects(text) == [subject] for text, subject in asked_texts.NAMED],
    }
    rates = {kind: sum(found) / len(found) for kind, found in right.items()}
    with capsys.disabled():
        print(
            "\n",
            ", ".join(f"{kind} {rate:.3f} of {len(right[kind])}" for kind, rate in rates.items()),
        )
    assert rates["plain"] > 0.98 and min(rates.values()) > 0.9


MARKS = ["\n", "\n\n", "```", '"', "“", "> ", "<document>", "</document>", "Context:", "Q:", "A:"]
LONG = st.lists(st.sampled_from([*PLAIN, *NOTHING, *MARKS]), max_size=12).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(st.one_of(LONG, st.text(max_size=200)))
def test_parts_and_material_are_in_order_within_the_text_and_do_not_overlap(text: str) -> None:
    asked = parts_of(text)
    assert len(asked.questions) <= MOST_PARTS and asked == parts_of(text)
    for spans in asked:
        places = [place for span in spans for place in span]
        assert places == sorted(places) and all(0 <= place <= len(text) for place in places)


def test_a_sentence_with_two_gaps_is_one_question() -> None:
    gap = 'Complete: The director of "The Lord of the Rings" is ...'
    log = "2026-11-23 10:00:01 ERROR the capital of Peru is unknown\n2026-11-23 10:00:02 INFO Peru"
    questions = parts_of(f"{gap} {log} {gap} {gap}").questions
    assert len(questions) == len(set(questions)) == 2


REPEATED = [
    *(
        "```",
        "``` x ``` ",
        "<document>",
        "<doc></doc>\n",
        "“",
        " 'a",
        '"',
        "Who? ",
        "\n",
        " ",
        "Who is it?\n",
        "> a\n",
    ),
    *(
        "2026-11-23 10:00:01 INFO a\n",
        "Context: a\n",
        "Q: a A: b ",
        "Translate: a\n",
        "please ",
        "who is it and ",
    ),
    *("a(", "---\n", "a.a.", "? ¿", '"""', "<a", "1. ", "ab", "Translate 'a b c' "),
]


@pytest.mark.reliability
@pytest.mark.parametrize("begun", ["", "Translate this:\n", "Who runs it?\n\n"])
def test_a_megabyte_is_read_in_a_fraction_of_what_its_names_take(begun: str, tally: Tally) -> None:
    tally("texts of 1 MB made to be slow", len(REPEATED))
    for piece in REPEATED:
        [took], of_names = bounded(begun + repeated(piece), parts_of)
        assert took < 0.4 * of_names, piece


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("port = ____\nWhat do I put in the blank?", ["port = ____\nWhat do I put in the blank?"]),
        (
            "def area(country):\n    return 1\nAREA_OF_PERU = ;\nx = f(2)\n\nit is empty, put in what is right",
            [
                "def area(country):\n    return 1\nAREA_OF_PERU = ;",
                "it is empty, put in what is right",
            ],
        ),
        (
            '{\n  "name": "Peru",\n  "capital": ""\n}\n^ fill in the field',
            ['{\n  "name": "Peru",\n  "capital": ""'],
        ),
        ("AREA_OF_PERU = ;\n\nWho wrote it?", ["Who wrote it?"]),
        (
            "Chile's capital is Lima, I know. And Peru's?",
            ["Chile's capital is Lima, I know. And Peru's?"],
        ),
        ("Chile\nand Peru?", ["and Peru?"]),
        (
            "What is the capital of Chile? And Peru's?",
            ["What is the capital of Chile? And Peru's?"],
        ),
        (
            "What is the capital of Chile? And Peru's mayor?",
            ["What is the capital of Chile?", "And Peru's mayor?"],
        ),
    ],
)
def test_what_is_to_be_filled_in_is_asked_and_what_a_question_leaves_out_stands_before_it(
    text: str, parts: list[str]
) -> None:
    said = [text[start:stop].strip() for start, stop in parts_of(text).questions]
    assert said[: len(parts)] == parts

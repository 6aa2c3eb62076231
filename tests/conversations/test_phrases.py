"""Turns that lean on earlier ones, and challenges, in ten languages; and turns that do neither."""

from __future__ import annotations

import pytest

from drike.conversations.cues import is_aside, is_challenge, leans

LEANING = """and its CEO?|why?|Why is that?|Since when?|who is his wife?|And France?|what about Peru?
the population?|Who else?|is it far from there?|How old is she?|What's its population?
When was it founded?|tell me more|Who founded it and when?|But who owns them?|So where is that?
und seit wann?|Und wer ist der Chef?|Wo liegt das?|Wem gehört sie?|et sa capitale ?
Et depuis quand ?|Pourquoi ?|¿y su capital?|¿Por qué?|¿Desde cuándo?|e la sua capitale?|Perché?
e a sua capital?|Por quê?|en sinds wanneer?|Waar ligt het?|а его столица?|Почему?|那它的首都呢？|为什么？
なぜですか|その首都は？"""
ALONE = """now write a haiku|ok bye|translate hello|What is the capital of Albania?|Who is the CEO of Apple?
hello|how are you?|Thanks!|Write a poem about spring|ok, now translate hello|What is 2+2?
Give me a recipe for soup|Who are you?|Hi there!|Schreib ein Gedicht
How do I sort a list in Python?|thank you very much|Tell me about Albania|Danke!|Merci beaucoup
Übersetze Hallo|Traduis bonjour|Escribe un poema|Scrivi una poesia|Vertaal hallo|Переведи привет
写一首诗|你好|Can you help me with my homework?|List three colours|I need a name for a cat
Calculate 7 times 8"""
CHALLENGES = """Are you sure?|That is wrong.|my source says Tirana|No, it's Tirana|no|I don't think so|Really?
You're wrong|Hmm, check again please|I read that it is Tirana|Are you certain about that?
Wikipedia says it's Tirana.|Seriously?|I thought it was Tirana|Actually, it's Tirana
But that is wrong|This is not correct|No, that can't be right|Is that true?|Bist du sicher?
Das stimmt nicht|C'est faux|Vous êtes sûr ?|¿Estás seguro?|Eso es falso|Sei sicuro?|Tem certeza?
Weet je het zeker?|Ты уверен?|你确定吗？|不对|本当ですか？|I believe you made a mistake|Wrong!"""
NO_CHALLENGES = """No problem, what is the capital of Peru?|Who wrote Wrong Turn?|Really good, thanks|and its CEO?
Write an essay on truth|What is the capital of Albania?|According to Plato, what is justice?
Wait times at the airport|Hmm. How many years of warranty does it have?|now write a haiku|ok"""


def each(texts: str) -> list[str]:
    return [text.strip() for line in texts.splitlines() for text in line.split("|")]


@pytest.mark.parametrize("text", each(LEANING))
def test_a_turn_leans_on_those_before_it(text: str) -> None:
    assert leans(text)


@pytest.mark.parametrize("text", each(ALONE))
def test_a_turn_stands_alone(text: str) -> None:
    assert not leans(text) and not is_challenge(text)


@pytest.mark.parametrize("text", each(CHALLENGES))
def test_a_turn_challenges_the_answer_before_it(text: str) -> None:
    assert is_challenge(text)


@pytest.mark.parametrize("text", each(NO_CHALLENGES))
def test_a_turn_challenges_nothing(text: str) -> None:
    assert not is_challenge(text)


CLOSING = """thanks, that helped a lot!|great, that's all|Perfect, that's all I needed.|ok that's too expensive. bye
awesome, cheers, that's all I wanted to know|no more questions, thx|Danke, das hat mir sehr geholfen!
Super, vielen Dank, das war's schon!|merci beaucoup, c'est parfait, bonne journée !|Genial, muchas gracias, eso es todo.
好的，谢谢你，没有别的问题了|Lovely, thank you ever so much for your help."""
GOING_ON = """Great, thanks! And how far does it go?|thanks, how heavy is it|Super, danke und wie schwer ist es
thanks. is it heavy|Gracias, ¿y cuánto pesa?|谢谢，它多少钱"""


@pytest.mark.parametrize("text", each(CLOSING))
def test_who_takes_leave_asks_nothing(text: str) -> None:
    assert is_aside(text) and not leans(text) and not is_challenge(text)


@pytest.mark.parametrize("text", each(GOING_ON))
def test_who_thanks_may_ask_on(text: str) -> None:
    assert not is_aside(text)


def test_thanks_keep_the_matter_as_it_is() -> None:
    assert all(map(is_aside, ("ok", "Thanks!", "Great, thank you", "merci", "谢谢")))
    assert not any(map(is_aside, ("ok, and its CEO?", "Fine, now write a haiku about the sea", "")))

"""What people write, in a dozen languages, from characters to questions.

`characters`, `fingerprints` and `words` read words, by which all texts are compared. `short_forms`,
`name_forms`, `capitals`, `surroundings` and `typos` are about names; `phrases`, `glossary`,
`spelling` and the wordings of relations about what texts say; `sentences`, `material`, `labels`,
`gaps`, `question_sentences` and `questions` about what in a text is a question.
"""

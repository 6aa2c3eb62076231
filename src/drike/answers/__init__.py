"""Whether an answer is right, in two readings.

`matching` reads strictly, as rewards and metrics ask for: the answer must begin with the object.
`statements` reads freely what a deployed model writes to a person: which object the answer states,
wherever it names it and unless it denies it (`denials`). Both compare texts in steps of their own.
`matching.normalise` folds case, articles and punctuation of a short text. The free reading looks
names up as words (`drike.text.words`), after `values.uniform` has given numbers, dates, quantities
and initials one form, by all the names that an object has (`object_names`). Objects that are
quantities are read by what they amount to (`quantities`: `amounts`, `times`, `codes`), lists
and policies by their parts (`parts`, `contents`).
"""

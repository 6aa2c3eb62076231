"""Stores of edits.

`records` has what is kept, `log` the protocol and the rules; `sqlite` and `postgres` keep edits, `opening`
chooses one by its address, `importing` reads files of edits.
"""

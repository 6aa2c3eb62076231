"""Stores of edits.

`records` has what is kept, `log` the rules and the protocol, `sqlite` and `postgres` (with `connection`) keep edits,
`opening` chooses one by its address, `importing` reads files of edits.
"""

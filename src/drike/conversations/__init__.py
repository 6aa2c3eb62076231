"""Edits in conversations: what a model sees is a function of what its client sees, turn by turn.

A request of any API is read into turns (`dialects`). Every turn is decided on, given only the turns up to it
(`following`), and written with its facts (`rendering`), so that an earlier turn reads the same in every later request.
"""

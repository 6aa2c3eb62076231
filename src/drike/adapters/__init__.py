"""Edits within frameworks that build requests themselves, for those who run no gateway.

Each module is for one framework, which it imports; `python -m drike.adapters NAME edits.db` says whether edits reach a
model through it in this environment.
"""

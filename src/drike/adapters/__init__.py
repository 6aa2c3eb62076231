"""Edits within frameworks that build requests themselves; `python -m drike.adapters` tries them."""

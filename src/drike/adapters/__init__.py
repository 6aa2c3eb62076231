"""Edits within frameworks that build requests themselves."""

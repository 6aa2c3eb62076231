"""Edits in conversations: requests are read by `turns`, followed (`following`), and written around (`rendering`)."""

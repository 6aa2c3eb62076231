"""Proof that edits take on a model: what it is asked, and the choice of where facts are placed."""

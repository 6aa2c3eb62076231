"""Proof that edits take on a model: the questions asked of it, and the choice of where facts are placed."""

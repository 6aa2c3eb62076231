"""A model with stored edits: a gate decides which of them each question gets."""

"""Stores of edits: what is kept (`records`), the rules (`log`), two backends (`opening`), and imports."""

"""Edits in conversations: read by `turns`, decided on by `following`, written by `rendering`."""

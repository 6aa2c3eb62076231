"""Edits in conversations: requests are read (`dialects`), followed (`following`) and written (`rendering`) by turns."""

"""A store's edits as they are now: the gate and the index over them, contradictions, and drafts from reports."""

"""A store's edits as they are now: gate and index, contradictions, drafts from reports."""

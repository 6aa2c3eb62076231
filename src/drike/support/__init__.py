"""What knows nothing of edits: files, strict JSON, values by key, parallel work, tables of text."""

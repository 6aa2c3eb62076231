"""What knows nothing of edits: files, strict JSON, parallel work, tables of text."""

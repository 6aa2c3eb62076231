"""The gateway, which puts the edits of a store in force behind an OpenAI-compatible API.

`start` puts it together from `gateway` (what happens to a request), `upstream` (what answers it), `live` (the edits,
kept up to date) and `admin`.
"""

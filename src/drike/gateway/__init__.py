"""The gateway, which puts the edits of a store in force behind an OpenAI-compatible API.

A request passes `admission`, `requests`, `editing` (by its tenant's `feed`), `upstream` and
`relay`, all in `gateway`.
"""

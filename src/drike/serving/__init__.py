"""The gateway, which puts the edits of a store in force behind an OpenAI-compatible API.

`start` puts it together. A request passes `admission`, `requests` (which parses it), `editing` (which decides on the
edits of its tenant's `feed`, and puts them into its text as `placement` says), `upstream` and `relay`; `gateway` calls
these in turn. `admin` is the other port.
"""

"""The gateway, which puts the edits of a store in force behind an OpenAI-compatible API.

The way of a request: `http.routes` admits it (`http.admission`) and reads its body (`http.relay`).
`editing` reads the conversation in it (`bodies`, `requests`), decides under the edits in force
(`feed`), and splices the facts in (`splicing`).
`http.upstream` sends it, `http.relay` passes the answer on, and `watch` counts what it states.
"""

"""Edits in force: their store, the gate that decides which of them a query concerns, and the gateway.

The store is `store` with its backends `sqlite` and `postgres`; the gate is `scope`; `start` puts a gateway together
from `gateway` (what happens to a request), `upstream` (what answers it), `live` (the edits, kept up to date) and
`admin`.
"""

"""Edits in force: the store of edits (`store`, kept by `sqlite`) and files of edits (`importing`).

See also the gate (`scope`, `names`, `calibrating`) and the gateway.
"""

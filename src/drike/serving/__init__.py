"""Edits in force: the store of edits (`store`, kept by `sqlite`) and files of edits (`importing`).

There is room for the gate and the gateway.
"""

"""Edits in force: the store of edits (`store`, kept by `sqlite`) and its files (`exchange`).

There is room for the gate and the gateway.
"""

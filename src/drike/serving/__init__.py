"""Edits in force: room for the edit store, the gate and the gateway."""

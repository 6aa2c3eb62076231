"""Gates, which decide which of the edits in force a query concerns.

`decision` has their protocol; docs/architecture.md walks through a decision.
"""

"""Gates decide which edits a query concerns.

`decision` has their protocol, docs/design/architecture.md a tour.
"""

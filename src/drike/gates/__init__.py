"""Gates, which decide which edits a query concerns: `decision` has their protocol, docs/architecture.md a tour."""

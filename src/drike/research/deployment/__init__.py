"""Many edits in force: a model that answers under them, and its evaluation behind a gate.

Every query goes through a gate (lifelong evaluation, docs/design/method.md).
"""

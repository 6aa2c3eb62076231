"""Gates, which decide which of the edits in force a query concerns.

`scope` has the protocol and the gates, `names` finds subjects in a query, `calibrating` learns probabilities and
certifies thresholds, `kept` keeps a store's gate beside its file.
"""

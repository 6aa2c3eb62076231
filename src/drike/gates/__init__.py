"""Gates, which decide which of the edits in force a query concerns.

`decision` has the protocol, `by_name` and `calibrated` the gates, `names` finds subjects in a query, `calibration`
learns probabilities and certifies thresholds, `store_gate` keeps a store's gate with its edits.
"""

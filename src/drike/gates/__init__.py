"""Gates, which decide which of the edits in force a query concerns.

`decision` has the protocol, `by_name` and `calibrated` the gates. What these look at: `names` finds subjects and their
short forms, `surroundings` tells other names from them, `asked` reads what a text asks, `relations` and `inventory`
compare what is asked with edits, `chains` follows edits from one to the next; `index` puts it together. `calibration`
learns probabilities and certifies thresholds, `store_gate` keeps a store's gate with its edits.
"""

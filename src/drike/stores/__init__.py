"""Stores of edits: a log of all their versions, and the rules of what may enter it.

`opening` opens a store; `edit_store` has the rules, `log` what is kept, `moves` what people do to
an edit, and `snapshots` what the edits are at a time. `database` is the interface of `sqlite` and
`postgres`, on which the tables beside the log stand, too: `inbox`, `traffic`, `verifications`.
`tables`, `export` and `folder` read and write files of edits.
"""
